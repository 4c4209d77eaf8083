"use strict";
(() => {
  const drawn = JSON.parse(document.getElementById("drawn").textContent);
  const place = document.getElementById("charts");
  const COLOURS = 6, HEIGHT = 170;
  let plots = [], range = null, following = false;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const clock = (seconds) => {
    const whole = Math.max(0, Math.floor(seconds)), two = (n) => String(n).padStart(2, "0");
    const hours = Math.floor(whole / 3600), rest = two(Math.floor(whole / 60) % 60) + ":" + two(whole % 60);
    return hours ? hours + ":" + rest : rest;
  };

  const figure = (value, unit) => {
    if (value === null || value === undefined) return "–";
    const digits = value >= 100 ? 0 : value >= 10 ? 1 : unit ? 2 : 4;
    return value.toLocaleString("en", { maximumFractionDigits: digits }) + " " + unit;
  };

  const element = (kind, parent, text, name) => {
    const made = parent.appendChild(document.createElement(kind));
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  };

  const columnsOf = (chart) => Math.max(...chart.lines.map((line) => line.mean.length));
  const whole = Math.max(...drawn.charts.map((chart) => columnsOf(chart) * chart.width_s));

  const follow = (from, low, high) => {
    if (following) return;
    following = true;
    range = low <= 0 && high >= whole ? null : [low, high];
    for (const plot of plots) if (plot !== from) plot.setScale("x", { min: low, max: high });
    following = false;
  };

  const marks = (plot) => {
    const { ctx, bbox } = plot, dots = devicePixelRatio;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("--faint");
    ctx.globalAlpha = 0.5;
    ctx.setLineDash([2 * dots, 4 * dots]);
    for (const mark of drawn.marks) {
      const x = plot.valToPos(mark.at, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  };

  const markAt = (at, width) => {
    const near = drawn.marks.filter((mark) => Math.abs(mark.at - at) <= width);
    return near.length ? " · " + near[0].text : "";
  };

  const draw = (chart) => {
    const panel = element("div", place, undefined, "panel");
    const title = element("h3", panel, chart.title + " ");
    element("small", title, chart.unit);
    const legend = element("div", panel, undefined, "legend");
    const time = element("span", legend, "");
    const readings = chart.lines.map((line, number) => {
      const entry = element("span", legend, undefined, "c" + (number % COLOURS));
      element("i", entry);
      return element("span", entry, line.label);
    });
    const count = columnsOf(chart);
    const filled = (values) => Array.from({ length: count }, (_, at) => values[at] ?? null);
    const data = [Array.from({ length: count }, (_, at) => (at + 0.5) * chart.width_s)];
    const series = [{}], bands = [], means = [];
    chart.lines.forEach((line, number) => {
      const stroke = colour("--c" + (number % COLOURS));
      if (line.low) {
        data.push(filled(line.high), filled(line.low));
        series.push({ points: { show: false } }, { points: { show: false } });
        bands.push({ series: [series.length - 2, series.length - 1], fill: stroke + "33" });
      }
      data.push(filled(line.mean));
      series.push({
        stroke, width: 1.6, points: { show: count < 2 },
        dash: number < COLOURS ? undefined : [6, 4],
      });
      means.push(series.length - 1);
    });
    const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const say = (plot) => {
      const at = plot.cursor.idx;
      time.textContent = at === null || at === undefined ? "" : clock(data[0][at]) + markAt(data[0][at], chart.width_s);
      chart.lines.forEach((line, number) => {
        let text = line.label;
        if (at !== null && at !== undefined) {
          text += " " + figure(line.mean[at], chart.unit);
          const low = line.low && line.low[at], high = line.high && line.high[at];
          if (typeof low === "number" && low < high) text += " (" + figure(low, "").trim() + " to " + figure(high, "").trim() + ")";
        }
        readings[number].textContent = text;
      });
    };
    const plot = new uPlot({
      width: place.clientWidth, height: HEIGHT, legend: { show: false }, series, bands,
      scales: {
        x: { time: false, range: (_, low, high) => [Math.max(0, low), Math.min(whole, high)] },
        y: { range: (_, low, high) => [0, chart.top || (high > 0 ? high * 1.08 : 1)] },
      },
      axes: [
        { ...axis, size: 34, values: (_, splits) => splits.map(clock), incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400] },
        { ...axis, size: 64, values: (_, splits) => splits.map((value) => value.toLocaleString("en")) },
      ],
      cursor: { sync: { key: "dlmon" }, drag: { x: true, y: false }, points: { show: (_, number) => means.includes(number) ? undefined : false } },
      hooks: {
        draw: [marks], setCursor: [say],
        setScale: [(plot, key) => key === "x" && follow(plot, plot.scales.x.min, plot.scales.x.max)],
      },
    }, data, panel);
    return plot;
  };

  const drawAll = () => {
    const kept = range;
    plots.forEach((plot) => plot.destroy());
    plots = [];
    place.replaceChildren();
    following = true;
    plots = drawn.charts.map(draw);
    following = false;
    const [low, high] = kept || [0, whole];
    plots.forEach((plot) => plot.setScale("x", { min: low, max: high }));
  };

  drawAll();
  document.getElementById("whole").addEventListener("click", () => {
    range = null;
    plots.forEach((plot) => plot.setScale("x", { min: 0, max: whole }));
  });
  new ResizeObserver(() => {
    plots.forEach((plot) => plot.setSize({ width: place.clientWidth, height: HEIGHT }));
  }).observe(place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  addEventListener("beforeprint", () => { document.documentElement.dataset.print = ""; drawAll(); });
  addEventListener("afterprint", () => { delete document.documentElement.dataset.print; drawAll(); });
})();
