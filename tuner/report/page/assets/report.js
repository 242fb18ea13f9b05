"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const said = byId("said");

  // --- what is packed: base64 of gzip
  async function unpack(id) {
    const binary = atob(byId(id).textContent.trim());
    const bytes = Uint8Array.from(binary, (one) => one.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  // --- plots
  const specs = JSON.parse(byId("plots").textContent);
  const narrow = () => window.innerWidth < 640;

  function coloured(value, style) {
    if (typeof value === "string" && value.startsWith("--")) return style.getPropertyValue(value).trim();
    if (Array.isArray(value)) return value.map((one) => coloured(one, style));
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, coloured(one, style)]));
    }
    return value;
  }

  function layoutOf(own) {
    const axis = { gridcolor: "--line", zerolinecolor: "--line", linecolor: "--line", automargin: true, fixedrange: true };
    const titled = (own) => (own && own.title ? { title: { font: { size: narrow() ? 12 : 13, color: "--ink-2" }, ...own.title } } : {});
    const layout = {
      height: 380,
      margin: { l: 8, r: 8, t: 12, b: 8, pad: 4 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: narrow() ? 12 : 13, color: "--ink" },
      hoverlabel: { bgcolor: "--shade", bordercolor: "--line", font: { color: "--ink" }, align: "left" },
      hovermode: "closest",
      dragmode: false,
      ...own,
    };
    for (const name of ["xaxis", "yaxis", "yaxis2"]) {
      if (name !== "yaxis2" || own.yaxis2) layout[name] = { ...axis, ...own[name], ...titled(own[name]) };
    }
    layout.legend = { orientation: "h", yref: "container", y: 0, yanchor: "bottom", x: 0, ...own.legend };
    return layout;
  }

  function draw() {
    const style = getComputedStyle(document.documentElement);
    return Promise.all(Object.entries(specs).map(([id, spec]) => window.Plotly.react(
      byId(id),
      coloured(spec.data, style),
      coloured(layoutOf(spec.layout), style),
      { responsive: true, displayModeBar: false, scrollZoom: false, doubleClick: false },
    )));
  }

  async function plots() {
    if (!Object.keys(specs).length) return;
    const script = document.createElement("script");
    script.textContent = await unpack("packed-plotly");
    document.head.append(script);
    await draw();
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  }

  // --- copying
  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      if (!done) throw new Error("this browser lets no page copy");
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    try {
      await copy(byId(button.dataset.copy).textContent);
      said.textContent = "Copied.";
      button.dataset.copied = "yes";
      button.dataset.label ??= button.textContent;
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = button.dataset.label; }, 2000);
    } catch (error) {
      said.textContent = `Not copied: ${error.message}. Select the text instead.`;
    }
  });

  // --- the table of trials
  const rows = byId("rows");
  const bodies = [...rows.tBodies];

  function filter() {
    const words = byId("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    const outcome = byId("outcome").value;
    const purpose = byId("purpose").value;
    let shown = 0;
    for (const body of bodies) {
      const text = body.rows[0].textContent.toLowerCase();
      const fits = (!outcome || body.dataset.outcome === outcome) && (!purpose || body.dataset.purpose === purpose)
        && words.every((word) => text.includes(word));
      body.hidden = !fits;
      shown += fits;
    }
    byId("shown").textContent = shown === bodies.length ? `${shown} trials` : `${shown} of ${bodies.length} trials`;
  }

  function sort(button) {
    const head = button.closest("th");
    const column = Number(button.dataset.sort);
    const figures = head.classList.contains("n");
    const current = head.getAttribute("aria-sort");
    const first = figures && column > 0 ? "descending" : "ascending"; // of rates the best first
    const next = current === null ? first : { ascending: "descending", descending: "ascending" }[current];
    const down = next === "descending";
    const value = (body) => {
      const cell = body.rows[0].cells[column];
      return figures ? (cell.dataset.v === "" ? null : Number(cell.dataset.v)) : cell.textContent.trim().toLowerCase();
    };
    const keyed = bodies.map((body) => [value(body), body]);
    keyed.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null); // what is not known comes last either way
      const order = figures ? a - b : a.localeCompare(b);
      return down ? -order : order;
    });
    for (const other of rows.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", next);
    rows.append(...keyed.map(([, body]) => body));
  }

  let details = null;

  async function open(button) {
    const body = button.closest("tbody");
    const isOpen = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!isOpen));
    if (isOpen) {
      body.rows[1].remove();
      return;
    }
    const row = body.insertRow();
    row.className = "more";
    const cell = row.insertCell();
    cell.colSpan = 8;
    details ??= unpack("packed-details").then(JSON.parse);
    const one = (await details)[body.dataset.trial];
    const add = (tag, text, changes = {}) => {
      const element = Object.assign(document.createElement(tag), changes);
      element.textContent = text;
      cell.append(element);
    };
    if (one.evidence) add("p", one.evidence);
    for (const line of one.lines) add("p", line, { className: "quiet" });
    add("h3", "command");
    add("pre", one.command, { id: `command-${body.dataset.trial}`, className: "argv" });
    const copyButton = Object.assign(document.createElement("button"), { type: "button" });
    copyButton.dataset.copy = `command-${body.dataset.trial}`;
    copyButton.textContent = "Copy";
    cell.append(copyButton);
    if (one.log) {
      add("h3", "end of the server's log");
      add("pre", one.log, { className: "log", tabIndex: 0 });
    }
  }

  rows.addEventListener("click", (event) => {
    const sorter = event.target.closest("[data-sort]");
    const opener = event.target.closest(".open");
    if (sorter) sort(sorter);
    if (opener) open(opener);
  });
  for (const id of ["find", "outcome", "purpose"]) byId(id).addEventListener("input", filter);

  plots().then(
    () => { document.documentElement.dataset.drawn = "yes"; },
    (error) => { said.textContent = `The plots cannot be drawn here (${error.message}); their figures can be opened below each.`; },
  );
})();
