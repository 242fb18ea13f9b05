"""The plots of a report, as plotly.js takes them."""
