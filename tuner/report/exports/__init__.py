"""The winner in the forms that people start servers with, a module each."""
