// The page's charts: one time axis, one cursor and one zoom for all of them. Drawing is plot.js.
//
// A drag across a chart shows those seconds in all of them; a double click, or Escape, shows the whole run.
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("chart-data").textContent);
  const end = data.end > 0 ? data.end : 1;
  const view = { from: 0, to: end };
  const LEAST_S = 0.02;
  let cursor = null;
  let drag = null;

  const boxes = [...document.querySelectorAll("[data-chart]")];
  const panels = boxes.map((box) => {
    const chart = data.charts[Number(box.dataset.chart)];
    const bands = data.bands.filter(
      (band) => !chart || !chart.effects.length || band.effects.some((effect) => chart.effects.includes(effect)));
    const panel = { box: box.querySelector(".plot"), chart, bands, hidden: new Set(), values: new Map() };
    if (chart) panel.chart = { ...chart, title: box.dataset.title };
    if (chart && chart.lines.length) legend(panel, box.querySelector(".legend"));
    listen(panel);
    return panel;
  });

  // A button for each line: it hides it, and shows its value under the cursor.
  function legend(panel, list) {
    for (const line of panel.chart.lines) {
      const button = document.createElement("button");
      const swatch = document.createElement("i");
      const value = document.createElement("span");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      swatch.className = `${line.shape} ${line.weight}`;
      swatch.style.borderColor = plot.colour(line.colour);
      button.append(swatch, ` ${line.name} `, value);
      button.addEventListener("click", () => {
        if (!panel.hidden.delete(line.name)) panel.hidden.add(line.name);
        button.setAttribute("aria-pressed", String(!panel.hidden.has(line.name)));
        draw(panel);
      });
      list.append(button);
      panel.values.set(line, value);
    }
  }

  function draw(panel) {
    const sheet = panel.chart
      ? plot.chart(panel.box, view, panel.chart, panel.bands, panel.hidden, end)
      : plot.faults(panel.box, view, panel.bands);
    const { svg, frame } = sheet;
    sheet.selection = plot.element("rect", { y: 0, height: frame.bottom, width: 0, class: "selection" }, sheet.inside);
    sheet.cursor = plot.element("line", { y1: 0, y2: frame.bottom, class: "cursor", visibility: "hidden" }, sheet.inside);
    panel.sheet = sheet;
    panel.box.replaceChildren(svg);
    point(panel);
  }

  const drawAll = () => panels.forEach(draw);

  // The value of a line at the cursor; null where there is none.
  function valueAt(line, t) {
    let low = 0, high = line.points.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (line.points[middle][0] <= t) low = middle + 1;
      else high = middle;
    }
    return low ? line.points[low - 1][1] : null;
  }

  function point(panel) {
    const { sheet, chart, values } = panel;
    sheet.cursor.setAttribute("visibility", cursor === null ? "hidden" : "visible");
    if (cursor !== null)
      for (const end of ["x1", "x2"]) sheet.cursor.setAttribute(end, sheet.x(cursor).toFixed(1));
    const selected = drag && Math.abs(drag.to - drag.from) > 0;
    const [from, to] = selected ? [drag.from, drag.to].sort((a, b) => a - b) : [0, 0];
    sheet.selection.setAttribute("x", selected ? sheet.x(from).toFixed(1) : 0);
    sheet.selection.setAttribute("width", selected ? (sheet.x(to) - sheet.x(from)).toFixed(1) : 0);
    for (const [line, place] of values) {
      const value = cursor === null || line.shape === "dots" ? null : valueAt(line, cursor);
      place.textContent = value === null ? "" : scales.value(value, chart.unit);
    }
  }

  const readout = document.getElementById("cursor-time");

  function pointAll() {
    panels.forEach(point);
    if (cursor === null) {
      readout.textContent = `${scales.time(view.from, view.to - view.from)} to ${scales.time(view.to, view.to - view.from)}`;
      return;
    }
    const active = data.bands.filter((band) => band.from <= cursor && cursor <= band.to);
    const faults = active.map((band) => `${band.n} ${band.label}`).join("; ");
    readout.textContent = `${cursor.toFixed(3)} s${faults ? ": " + faults : ""}`;
  }

  function zoom(from, to) {
    const span = Math.max(to - from, LEAST_S);
    view.from = Math.max(0, Math.min(from, end - span));
    view.to = Math.min(end, view.from + span);
    drawAll();
    pointAll();
  }

  function listen(panel) {
    const seconds = (event) => {
      const area = panel.sheet.svg.getBoundingClientRect();
      const at = ((event.clientX - area.left) / area.width) * panel.sheet.width;
      const { left, right } = panel.sheet.frame;
      const t = view.from + ((at - left) / (right - left)) * (view.to - view.from);
      return Math.max(view.from, Math.min(view.to, t));
    };
    panel.box.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      drag = { from: seconds(event), to: seconds(event), x: event.clientX };
      try { panel.box.setPointerCapture(event.pointerId); } catch { /* A pointer that is gone already. */ }
    });
    panel.box.addEventListener("pointermove", (event) => {
      cursor = seconds(event);
      if (drag) drag.to = cursor;
      pointAll();
    });
    panel.box.addEventListener("pointerup", (event) => {
      const done = drag;
      drag = null;
      if (done && Math.abs(event.clientX - done.x) > 5) zoom(...[done.from, seconds(event)].sort((a, b) => a - b));
      else pointAll();
    });
    for (const lost of ["pointerleave", "pointercancel"])
      panel.box.addEventListener(lost, () => {
        cursor = null;
        if (lost === "pointercancel") drag = null;
        pointAll();
      });
    panel.box.addEventListener("dblclick", () => zoom(0, end));
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") zoom(0, end);
  });
  for (const button of document.querySelectorAll("[data-zoom]"))
    button.addEventListener("click", () => {
      const [from, to] = button.dataset.zoom.split(" ").map(Number);
      if (to > from) zoom(from, to);
      else zoom(0, end);
      document.getElementById("charts").scrollIntoView();
    });

  let width = null;
  new ResizeObserver(() => {
    const now = document.getElementById("charts").clientWidth;
    if (now !== width) drawAll();
    width = now;
  }).observe(document.getElementById("charts"));
  drawAll();
  pointAll();

  // What is folded away on the screen is printed.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const one of opened) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
  });
})();
