// One chart as SVG: axes, fault bands, lines, strips. Knows nothing of the mouse, nor of other charts.
//
// Colours are custom properties of the style sheet, so that dark pages and print need no drawing anew.
"use strict";

const plot = {
  LANE: 17,
  CHARACTER: 6.2, // The width of one in a label, in px.

  element(name, attributes, parent, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  },

  colour: (name) => `var(--c-${name})`,

  // An empty drawing of the view's seconds, as wide as its box. frame: where the curves go.
  sheet(box, view, height, name) {
    const width = Math.max(box.clientWidth || 900, 200);
    const frame = { left: width < 520 ? 46 : 66, right: width - 10, top: 14, bottom: 14 + height };
    const svg = plot.element("svg", {
      viewBox: `0 0 ${width} ${frame.bottom + 22}`, role: "img", "aria-label": name,
      "data-from": view.from.toFixed(3), "data-to": view.to.toFixed(3),
    });
    const x = (t) => frame.left + ((t - view.from) / (view.to - view.from)) * (frame.right - frame.left);
    const clip = `clip-${(plot.count = (plot.count || 0) + 1)}`;
    const path = plot.element("clipPath", { id: clip }, svg);
    plot.element("rect", {
      x: frame.left, y: 0, width: frame.right - frame.left, height: frame.bottom + 1,
    }, path);
    const inside = plot.element("g", { "clip-path": `url(#${clip})` });
    return { svg, frame, x, inside, width, view };
  },

  // Vertical lines and the seconds below them.
  times(sheet) {
    const { frame, svg, view } = sheet;
    const span = view.to - view.from;
    for (const t of scales.ticks(view.from, view.to, (frame.right - frame.left) / 85)) {
      const at = sheet.x(t).toFixed(1);
      plot.element("line", { x1: at, x2: at, y1: frame.top, y2: frame.bottom, class: "grid" }, svg);
      const anchor = at > frame.right - 16 ? "end" : "middle";
      plot.element("text", { x: at, y: frame.bottom + 15, "text-anchor": anchor }, svg, scales.time(t, span));
    }
    plot.element("line", { x1: frame.left, x2: frame.right, y1: frame.bottom, y2: frame.bottom, class: "axis" }, svg);
  },

  // Faults behind the curves. Their numbers stand above, where there is room: their names are in the strip of faults.
  bands(sheet, bands) {
    let taken = -Infinity;
    for (const band of bands) {
      const from = sheet.x(band.from), to = Math.max(sheet.x(band.to), from + 1.5);
      const shape = plot.element("rect", {
        x: from.toFixed(1), y: sheet.frame.top, width: (to - from).toFixed(1),
        height: sheet.frame.bottom - sheet.frame.top, class: "band", fill: plot.colour(band.colour),
      }, sheet.inside);
      plot.element("title", {}, shape, `fault ${band.n}: ${band.label}`);
      const label = String(band.n), at = Math.max(from, sheet.frame.left) + 1;
      if (to < sheet.frame.left || from > sheet.frame.right || at < taken) continue;
      plot.element("text", { x: at.toFixed(1), y: 10, class: "mark" }, sheet.inside, label);
      taken = at + (label.length + 1) * plot.CHARACTER;
    }
  },

  // The path of a line, in px. Values of null end a stretch.
  path(line, x, y, end) {
    let d = "", drawing = false;
    for (const [t, value] of line.points) {
      const at = x(t).toFixed(1);
      if (value === null) {
        if (drawing && line.shape === "step") d += `H${at}`;
        drawing = false;
      } else if (line.shape === "dots") d += `M${at},${y(value).toFixed(1)}h0`;
      else if (!drawing) d += `M${at},${y(value).toFixed(1)}`;
      else d += line.shape === "step" ? `H${at}V${y(value).toFixed(1)}` : `L${at},${y(value).toFixed(1)}`;
      if (value !== null) drawing = true;
    }
    return drawing && line.shape === "step" ? `${d}H${x(end).toFixed(1)}` : d;
  },

  // The values that are on the screen, of a step also the one that it comes in with.
  *seen(line, view) {
    let before = null;
    for (const [t, value] of line.points) {
      if (t > view.to) break;
      if (t >= view.from) {
        if (before !== null) yield before;
        before = null;
        if (value !== null) yield value;
      } else before = value;
    }
    if (before !== null) yield before;
  },

  lines(sheet, chart, hidden, end) {
    const { frame, svg, view } = sheet;
    const shown = chart.lines.filter((line) => !hidden.has(line.name));
    const [low, high] = scales.extent(shown.flatMap((line) => [...plot.seen(line, view)]), chart.log);
    const scale = chart.log ? (value) => Math.log10(Math.max(value, low)) : (value) => value;
    const y = (value) =>
      frame.bottom - ((scale(value) - scale(low)) / (scale(high) - scale(low))) * (frame.bottom - frame.top);
    const wanted = (frame.bottom - frame.top) / 36;
    for (const value of chart.log ? scales.logTicks(low, high) : scales.ticks(low, high, wanted)) {
      const at = y(value).toFixed(1);
      plot.element("line", { x1: frame.left, x2: frame.right, y1: at, y2: at, class: "grid" }, svg);
      plot.element("text", { x: frame.left - 6, y: Number(at) + 4, "text-anchor": "end" }, svg, scales.value(value, chart.unit));
    }
    svg.append(sheet.inside);
    for (const line of shown)
      plot.element("path", {
        d: plot.path(line, sheet.x, y, end), class: `line ${line.shape} ${line.weight}`, stroke: plot.colour(line.colour),
      }, sheet.inside);
  },

  // One row for each lane; what a stretch says stands in it where there is room.
  lanes(sheet, chart) {
    const { frame, svg } = sheet;
    svg.append(sheet.inside);
    chart.lanes.forEach((lane, nth) => {
      const top = frame.top + nth * plot.LANE;
      plot.element("text", { x: frame.left - 6, y: top + 12, "text-anchor": "end" }, svg, lane.name);
      for (const [from, to, colour, text] of lane.stretches) {
        const left = sheet.x(from), right = Math.max(sheet.x(to), left + 1);
        const shape = plot.element("rect", {
          x: left.toFixed(1), y: top + 1, width: (right - left).toFixed(1), height: plot.LANE - 3,
          fill: plot.colour(colour), class: "stretch",
        }, sheet.inside);
        plot.element("title", {}, shape, text);
        const start = Math.max(left, frame.left) + 4;
        if (!colour.endsWith("-light") && Math.min(right, frame.right) - start > text.length * plot.CHARACTER)
          plot.element("text", { x: start.toFixed(1), y: top + 12, class: "inside" }, sheet.inside, text);
      }
    });
  },

  // The strip of faults: a bar for each, its name beside it, in the first row that has room for both.
  faults(box, view, bands) {
    const rows = [];
    const probe = plot.sheet(box, view, 0, "");
    const placed = bands.filter((band) => band.to >= view.from && band.from <= view.to).map((band) => {
      const text = `${band.n} ${band.label}`, long = text.length * plot.CHARACTER + 8;
      const from = Math.max(probe.x(band.from), probe.frame.left);
      const to = Math.min(Math.max(probe.x(band.to), from + 2), probe.frame.right);
      const label = Math.max(Math.min(from, probe.frame.right - long), probe.frame.left);
      let row = rows.findIndex((taken) => taken <= Math.min(from, label));
      if (row < 0) row = rows.push(0) - 1;
      rows[row] = Math.max(to, label + long);
      return { band, text, from, to, label, row };
    });
    const tall = 28;
    const sheet = plot.sheet(box, view, Math.max(rows.length, 1) * tall, "Faults");
    plot.times(sheet);
    sheet.svg.append(sheet.inside);
    for (const { band, text, from, to, label, row } of placed) {
      const top = sheet.frame.top + row * tall;
      plot.element("rect", {
        x: from.toFixed(1), y: top + 14, width: (to - from).toFixed(1), height: 8, rx: 2, fill: plot.colour(band.colour),
      }, sheet.inside);
      plot.element("text", { x: label.toFixed(1), y: top + 10, class: "fault" }, sheet.inside, text);
    }
    return sheet;
  },

  // A chart's drawing. bands: the faults that are marked in it.
  chart(box, view, chart, bands, hidden, end) {
    const height = chart.lanes.length ? chart.lanes.length * plot.LANE : chart.height;
    const sheet = plot.sheet(box, view, height, chart.title);
    plot.times(sheet);
    plot.bands(sheet, bands);
    if (chart.lanes.length) plot.lanes(sheet, chart);
    else plot.lines(sheet, chart, hidden, end);
    return sheet;
  },
};
