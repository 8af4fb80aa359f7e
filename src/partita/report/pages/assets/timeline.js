"use strict";
/* The time line: of any length, because only what can be told apart is given to plotly to draw. Few slices are bars;
   many are a picture in which each point has the colour of what takes most of it. */
partita.timeline = async (box, data, bytes) => {
  const count = data.count;
  let place = 0;
  const column = () => {
    const found = new Int32Array(count), at = place;
    for (let i = 0; i < count; i++)
      found[i] = bytes[at + i] | (bytes[at + count + i] << 8) | (bytes[at + 2 * count + i] << 16) | (bytes[at + 3 * count + i] << 24);
    place += 4 * count;
    return found;
  };
  const start = column(), end = column(), sort = column(), stage = column(), micro = column(), name = column(), critical = column();
  /* Distances become times, differences become numbers. */
  const first = [0];
  for (const lane of data.lanes) first.push(first.at(-1) + lane.count);
  for (let lane = 0; lane < data.lanes.length; lane++) {
    const lastStage = new Int32Array(data.sorts.length), lastMicro = new Int32Array(data.sorts.length);
    let reached = 0;
    for (let i = first[lane]; i < first[lane + 1]; i++) {
      start[i] += reached;
      reached = end[i] += start[i];
      stage[i] = lastStage[sort[i]] += stage[i];
      micro[i] = lastMicro[sort[i]] += micro[i];
    }
  }
  const scale = data.finish / data.ticks, unit = data.unit;
  /* Axes count in what is easy to read. */
  const [size, axis] = unit === "s" ? [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]].find(([s]) => data.finish >= s) ?? [1e-9, "ns"] : [1, unit];
  const plot = box.querySelector(".line"), readout = box.querySelector(".readout");
  const used = data.lanes.map((_, k) => k).filter((k) => data.lanes[k].count || data.lanes[k].stream === "compute");
  const work = used.filter((k) => data.lanes[k].stream === "compute");
  const transfers = box.querySelector('[data-act="transfers"]'), path = box.querySelector('[data-act="critical"]');
  transfers.checked = work.length === 0 || used.length <= 48;
  if (work.length === 0 || work.length === used.length) transfers.parentElement.hidden = true;
  let rows, window_ = [0, data.finish], tall = null;
  const most = 3000;
  const label = (i) => {
    if (data.names[name[i]]) return data.names[name[i]];
    return data.sorts[sort[i]].name + (micro[i] >= 0 ? ` ${micro[i]}` : "") + (stage[i] >= 0 ? `, stage ${stage[i]}` : "");
  };
  const short = (i) => (data.names[name[i]] ? "" : data.sorts[sort[i]].letter + (micro[i] >= 0 ? micro[i] : ""));
  const title = (lane) => `${data.lanes[lane].owner}${data.lanes[lane].stream === "compute" ? "" : " " + data.lanes[lane].stream}`;
  /* The first slice of a lane that may reach beyond a time: of shared lanes any may. */
  const from = (lane, tick) => {
    let low = first[lane], high = first[lane + 1];
    if (data.lanes[lane].shared) return low;
    while (low < high) { const middle = (low + high) >> 1; if (end[middle] <= tick) low = middle + 1; else high = middle; }
    return low;
  };
  const visible = () => {
    const low = Math.max(0, Math.floor(tall ? tall[0] + 0.5 : 0)), high = Math.min(rows.length - 1, Math.ceil(tall ? tall[1] - 0.5 : rows.length - 1));
    return [low, high];
  };
  const bars = (low, high, t0, t1) => {
    const by = new Map();
    for (let row = low; row <= high; row++) {
      const lane = rows[row];
      for (let i = from(lane, t0); i < first[lane + 1]; i++) {
        if (start[i] > t1) break;
        if (end[i] <= start[i] || end[i] < t0 || (path.checked && !critical[i])) continue;
        if (!by.has(sort[i])) by.set(sort[i], []);
        by.get(sort[i]).push([row, i]);
        let total = 0;
        for (const found of by.values()) total += found.length;
        if (total > most) return null;
      }
    }
    return [...by.keys()].sort((a, b) => a - b).map((k) => {
      const found = by.get(k);
      return {
        type: "bar", orientation: "h", name: data.sorts[k].name, showlegend: false, width: 0.82,
        y: found.map(([row]) => row), base: found.map(([, i]) => start[i] * scale / size), x: found.map(([, i]) => (end[i] - start[i]) * scale / size),
        marker: { color: data.sorts[k].colour, opacity: found.map(([row]) => (data.lanes[rows[row]].shared ? 0.55 : 1)), line: { color: "#d0021b", width: found.map(([, i]) => (critical[i] && !path.checked ? 1.5 : 0)) } },
        text: found.map(([, i]) => ((end[i] - start[i]) / (t1 - t0) * plot.clientWidth > 24 ? short(i) : "")), textposition: "inside", insidetextanchor: "middle", constraintext: "inside", textangle: 0, insidetextfont: { color: "#14171d", size: 10 },
        customdata: found.map(([row, i]) => [title(rows[row]), label(i), partita.time(start[i] * scale, unit), partita.time((end[i] - start[i]) * scale, unit)]),
        hovertemplate: "%{customdata[1]}<br>%{customdata[0]}<br>starts %{customdata[2]}, takes %{customdata[3]}<extra></extra>",
      };
    });
  };
  const picture = (low, high, t0, t1) => {
    const columns = Math.max(200, Math.min(1600, plot.clientWidth - 90)), kinds = data.sorts.length, z = [];
    const per = columns / (t1 - t0), spent = new Float64Array(kinds * columns);
    for (let row = low; row <= high; row++) {
      const lane = rows[row], line = new Float32Array(columns).fill(NaN);
      spent.fill(0);
      for (let i = from(lane, t0); i < first[lane + 1]; i++) {
        if (start[i] >= t1) break;
        if (end[i] <= t0 || (path.checked && !critical[i])) continue;
        const a = Math.max(0, (start[i] - t0) * per), b = Math.min(columns, (end[i] - t0) * per), base = sort[i] * columns;
        let c = Math.floor(a);
        const last = Math.min(columns - 1, Math.floor(b));
        if (c >= last) { spent[base + Math.min(c, columns - 1)] += b - a; continue; }
        spent[base + c] += c + 1 - a;
        for (c++; c < last; c++) spent[base + c] += 1;
        spent[base + last] += b - last;
      }
      for (let c = 0; c < columns; c++) {
        let best = 0, which = NaN, all = 0;
        for (let k = 0; k < kinds; k++) { const s = spent[k * columns + c]; all += s; if (s > best) { best = s; which = k; } }
        if (all >= (path.checked ? 1e-9 : 0.4)) line[c] = which;
      }
      z.push(line);
    }
    const colours = [];
    data.sorts.forEach((entry, k) => colours.push([k / kinds, entry.colour], [(k + 1) / kinds, entry.colour]));
    return [{ type: "heatmap", z, x0: (t0 + 0.5 / per) * scale / size, dx: scale / per / size, y0: low, dy: 1, zmin: -0.5, zmax: kinds - 0.5, colorscale: colours, showscale: false, hoverinfo: "none", zsmooth: false }];
  };
  const draw = async () => {
    rows = transfers.checked || work.length === 0 ? used : work;
    const [low, high] = visible();
    const t0 = Math.max(0, window_[0] / scale), t1 = Math.min(data.ticks, window_[1] / scale);
    const traces = bars(low, high, t0, t1) ?? picture(low, high, t0, t1);
    const shown = high - low + 1, every = Math.max(1, Math.ceil(shown / 40)), ticks = [];
    for (let row = low; row <= high; row += every) ticks.push(row);
    /* Measured by hand: what plotly measures it draws twice. */
    const clip = (text) => (text.length > 26 ? text.slice(0, 25) + "…" : text);
    const left = 14 + 7 * Math.max(...ticks.map((row) => clip(title(rows[row])).length));
    const height = Math.round(Math.max(170, Math.min(620, 70 + used.length * 22, 70 + rows.length * 26)));
    plot.style.height = `${height}px`;
    const ends = tall ?? [-0.5, rows.length - 0.5];
    await Plotly.react(plot, traces, {
      height, barmode: "overlay", showlegend: false, dragmode: "zoom", margin: { l: left, r: 12, t: 6, b: 40 }, template: "none",
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: getComputedStyle(document.body).fontFamily, size: 12 },
      xaxis: { range: window_.map((at) => at / size), title: { text: `time (${axis})` }, gridcolor: "#8884", zeroline: false, minallowed: 0, maxallowed: data.finish / size },
      yaxis: { range: [ends[1], ends[0]], tickvals: ticks, ticktext: ticks.map((row) => clip(title(rows[row]))), showgrid: false, zeroline: false },
    }, { ...partita.config, doubleClick: false, scrollZoom: false });
    say(`Shown: ${partita.time(window_[0], unit)} to ${partita.time(window_[1], unit)}, ${shown} of ${rows.length} rows` + (traces[0]?.type === "heatmap" ? "; each point has the colour of what takes most of it" : "; slices of the critical path have a red edge"));
  };
  const say = (text) => { readout.textContent = text; };
  let busy = Promise.resolve();
  const view = (low, high) => {
    const length = Math.min(data.finish, Math.max(high - low, data.finish / data.ticks * 8));
    low = Math.max(0, Math.min(low, data.finish - length));
    window_ = [low, low + length];
    busy = busy.then(draw);
    return busy;
  };
  const act = (what) => {
    const [low, high] = window_, middle = (low + high) / 2, length = high - low;
    if (what === "zoom-in") return view(middle - length / 4, middle + length / 4);
    if (what === "zoom-out") return view(middle - length, middle + length);
    if (what === "left") return view(low - length / 2, high - length / 2);
    if (what === "right") return view(low + length / 2, high + length / 2);
    tall = null;
    return view(0, data.finish);
  };
  for (const button of box.querySelectorAll("button")) button.addEventListener("click", () => act(button.dataset.act));
  transfers.addEventListener("change", () => { tall = null; view(...window_); });
  path.addEventListener("change", () => view(...window_));
  plot.addEventListener("keydown", (event) => {
    const keys = { "+": "zoom-in", "=": "zoom-in", "-": "zoom-out", ArrowLeft: "left", ArrowRight: "right", 0: "reset", Home: "reset" };
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    act(keys[event.key]);
  });
  plot.replaceChildren();
  await view(0, data.finish);
  plot.on("plotly_relayout", (change) => {
    if (!("xaxis.range[0]" in change) && !("yaxis.range[0]" in change)) return;
    const low = "xaxis.range[0]" in change ? change["xaxis.range[0]"] * size : window_[0], high = "xaxis.range[1]" in change ? change["xaxis.range[1]"] * size : window_[1];
    if ("yaxis.range[0]" in change) {
      const ends = [change["yaxis.range[0]"], change["yaxis.range[1]"]].sort((a, b) => a - b);
      tall = [Math.max(-0.5, Math.floor(ends[0] + 0.5) - 0.5), Math.min(rows.length - 0.5, Math.ceil(ends[1] - 0.5) + 0.5)];
    }
    view(Math.max(0, low), Math.min(data.finish, high));
  });
  plot.on("plotly_doubleclick", () => act("reset"));
  plot.on("plotly_hover", (event) => {
    const point = event.points[0];
    if (point.data.type !== "heatmap") return;
    const lane = rows[Math.round(point.y)], at = point.x * size, tick = at / scale, i = from(lane, tick);
    const inside = i < first[lane + 1] && start[i] <= tick;
    say(`${title(lane)} at ${partita.time(at, unit)}: ${inside ? `${label(i)}, ${partita.time(start[i] * scale, unit)} to ${partita.time(end[i] * scale, unit)}` : "nothing"}`);
  });
};
