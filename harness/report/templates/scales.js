// Numbers of charts: round ticks, and how values and times are written. Knows no page.
"use strict";

const scales = {
  // Round values from low to high, about `wanted` of them.
  ticks(low, high, wanted) {
    const rough = (high - low) / Math.max(wanted, 1);
    if (!(rough > 0)) return [low];
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough * 0.999);
    const found = [];
    for (let nth = Math.ceil(low / step - 1e-9); nth * step <= high + step * 1e-6; nth += 1) found.push(nth * step || 0);
    return found;
  },

  // Powers of ten from low to high, with 2 and 5 between where there are few.
  logTicks(low, high) {
    const found = [];
    const few = Math.log10(high / low) <= 2.01;
    for (let power = 10 ** Math.floor(Math.log10(low)); power <= high * 1.001; power *= 10)
      for (const one of few ? [1, 2, 5] : [1]) {
        const value = one * power;
        if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
      }
    return found;
  },

  number(value) {
    const size = Math.abs(value);
    const digits = size === 0 || Number.isInteger(value) ? 0 : Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(size))));
    return value.toLocaleString("en-US", { maximumFractionDigits: digits });
  },

  // A value with its unit; milliseconds become seconds where there are many.
  value(value, unit) {
    if (unit === "ms" && Math.abs(value) >= 1000) return scales.number(value / 1000) + " s";
    if (unit === "/s") return scales.number(value) + "/s";
    return scales.number(value) + (unit === "ms" ? " ms" : "");
  },

  // Seconds of the run with as many decimals as `span` seconds on the screen can show.
  time(t, span) {
    const digits = span > 20 ? 0 : span > 2 ? 1 : span > 0.2 ? 2 : 3;
    return t.toFixed(digits) + " s";
  },

  // [low, high] of a vertical axis.
  extent(values, log) {
    let low = Infinity, high = -Infinity;
    for (const value of values) {
      if (log && !(value > 0)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
    if (low > high) return log ? [1, 10] : [0, 1];
    if (log) {
      low = 10 ** Math.floor(Math.log10(low) + 1e-9);
      high = 10 ** Math.ceil(Math.log10(high) - 1e-9);
      return high > low ? [low, high] : [low, low * 10];
    }
    // From zero, unless what is seen lies far from it.
    const span = high - low;
    if (low > 0 && (span === 0 || low < span * 2)) low = 0;
    if (high < 0 && -high < span * 2) high = 0;
    if (low === high) return [low - 1, high + 1];
    return [low < 0 ? low - span * 0.05 : low, high + (high - low) * 0.05];
  },
};
