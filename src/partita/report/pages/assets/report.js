"use strict";
/* Unpacks plotly, which stands in the page, and lets it draw the figures; fetches nothing. */
const partita = {
  read: (id) => JSON.parse(document.getElementById(id).textContent),
  async unpack(text) {
    let bytes;
    if (Uint8Array.fromBase64) bytes = Uint8Array.fromBase64(text);
    else {
      const letters = atob(text);
      bytes = new Uint8Array(letters.length);
      for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
    }
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
  },
  config: { displayModeBar: false, responsive: true, doubleClick: "reset" },
  pause: () => new Promise((done) => setTimeout(done, 0)),
  time(value, unit) {
    if (value === null || value === undefined) return "—";
    if (unit !== "s") return `${+value.toPrecision(4)} ${unit}`;
    if (value === 0) return "0 s";
    for (const [scale, name] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]])
      if (Math.abs(value) >= scale) return `${+(value / scale).toPrecision(4)} ${name}`;
    return `${+(value / 1e-9).toPrecision(4)} ns`;
  },
  bytes(value) {
    if (value === null || value === undefined) return "—";
    for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
      if (Math.abs(value) < 1024 || unit === "TiB") return `${value.toFixed(unit === "B" ? 0 : 2)} ${unit}`;
      value /= 1024;
    }
  },
};

/* Tables that are long: rows that contain what is looked for, the first of them. */
partita.operators = (box) => {
  const data = partita.read(box.dataset.source), most = 300;
  const element = (name, text, attributes = {}) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const label = element("label", "Find: "), input = element("input", undefined, { type: "search" });
  label.append(input);
  const said = element("p", "", { "aria-live": "polite", class: "lead" });
  const scroll = element("div", undefined, { class: "scroll", tabindex: "0", role: "group", "aria-label": box.dataset.title });
  box.append(label, said, scroll);
  const columns = [["#", 0], ["name", 1], ["module", 2], ["stage", 3], ["device", 4], ["time", 5], ["memory", 6], ["how", 7]];
  const shown = columns.filter(([, k]) => k < 5 ? k !== 2 || data.modules.some(Boolean) : data.rows.some((row) => row[k] !== null && row[k] !== ""));
  const cell = (row, k) =>
    k === 2 ? data.modules[row[2]] : k === 4 ? data.where[row[4]] : k === 5 ? partita.time(row[5], data.unit) : k === 6 ? partita.bytes(row[6]) : String(row[k]);
  const number = new Set([3, 5, 6]);
  const fill = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = data.rows.filter((row) => {
      const text = `${row[0]} ${row[1]} ${data.modules[row[2]]} ${data.where[row[4]]} stage:${row[3]} ${row[7]}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    said.textContent = `${found.length} of ${data.rows.length}` + (found.length > most ? `, the first ${most} shown` : "");
    const table = element("table"), head = element("tr"), body = element("tbody"), top = element("thead");
    table.append(element("caption", box.dataset.title));
    for (const [title, k] of shown) head.append(element("th", title, { scope: "col", ...(number.has(k) ? { class: "n" } : {}) }));
    for (const row of found.slice(0, most)) {
      const line = element("tr");
      shown.forEach(([, k], place) => line.append(element(place ? "td" : "th", cell(row, k), { ...(place ? {} : { scope: "row" }), ...(number.has(k) ? { class: "n" } : {}) })));
      body.append(line);
    }
    top.append(head);
    table.append(top, body);
    scroll.replaceChildren(table);
  };
  input.addEventListener("input", fill);
  fill();
};

partita.start = async () => {
  for (const box of document.querySelectorAll(".operators")) {
    const around = box.closest("details");
    const make = () => { if (around.open && !box.hasChildNodes()) partita.operators(box); };
    around.addEventListener("toggle", make);
    make();
  }
  const charts = [...document.querySelectorAll(".chart")], lines = [...document.querySelectorAll(".timeline")];
  if (charts.length + lines.length) {
    /* What takes long is unpacked beside each other, and beside the program. */
    const waiting = lines.map((box) => {
      const data = partita.read(box.dataset.source);
      return [box, data, partita.unpack(data.packed)];
    });
    const source = new TextDecoder().decode(await partita.unpack(document.getElementById("library").textContent));
    const program = document.createElement("script");
    program.textContent = source;
    document.head.append(program);
    for (const [box, data, bytes] of waiting) await partita.timeline(box, data, new Uint8Array(await bytes));
    performance.mark("time line");
    for (const box of charts) {
      await partita.pause();
      const found = partita.read(`${box.id}-figure`);
      await Plotly.newPlot(box, found.data, found.layout, partita.config);
    }
    addEventListener("beforeprint", () => { for (const box of document.querySelectorAll(".js-plotly-plot")) Plotly.Plots.resize(box); });
  }
  performance.mark("ready");
  document.documentElement.dataset.ready = "yes";
};
