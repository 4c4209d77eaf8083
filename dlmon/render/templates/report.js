"use strict";
(() => {
  const drawn = JSON.parse(document.getElementById("drawn").textContent);
  const place = document.getElementById("charts");
  const COLOURS = 6, HEIGHT = 170, DOTS = 60;
  let plots = [], range = null, following = false;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const clock = (seconds) => {
    const whole = Math.max(0, Math.floor(seconds)), two = (n) => String(n).padStart(2, "0");
    const hours = Math.floor(whole / 3600), rest = two(Math.floor(whole / 60) % 60) + ":" + two(whole % 60);
    return hours ? hours + ":" + rest : rest;
  };

  // As a table writes it.
  const metric = (value) => {
    if (value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e3)) return value.toFixed(4);
    const rounded = Number(value.toPrecision(4)), size = Math.abs(rounded);
    if (size >= 1e-4 && size < 1e4) return String(rounded);
    return rounded.toExponential().replace(/(?<=[+-])\d$/, "0$&");
  };

  // What has no unit is a metric.
  const written = (value, unit) => {
    if (!unit) return metric(value);
    return value.toLocaleString("en", { maximumFractionDigits: value >= 100 ? 0 : value >= 10 ? 1 : 2 });
  };

  const figure = (value, unit) => {
    if (value === null || value === undefined) return "–";
    return written(value, unit) + (unit ? " " + unit : "");
  };

  const element = (kind, parent, text, name) => {
    const made = parent.appendChild(document.createElement(kind));
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  };

  const tick = (value) => value.toLocaleString("en", { maximumSignificantDigits: 6 });

  const columnsOf = (chart) => Math.max(...chart.lines.map((line) => line.mean.length));
  const endOf = (chart) => Math.max(...chart.lines.map((line) => line.at_s[line.at_s.length - 1]));
  const whole = Math.max(
    1e-3, ...drawn.charts.map((chart) => columnsOf(chart) * chart.width_s), ...drawn.metrics.map(endOf),
  );

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

  // All lines of a chart over the same times: columns, or the times at which any has a value.
  // What is undefined was not read then, and is drawn across; null is a gap.
  const ofColumns = (chart) => {
    const count = columnsOf(chart);
    const filled = (values) => values && Array.from({ length: count }, (_, at) => values[at] ?? null);
    return {
      times: Array.from({ length: count }, (_, at) => (at + 0.5) * chart.width_s),
      lines: chart.lines.map((line, number) => ({
        ...line, mean: filled(line.mean), low: filled(line.low), high: filled(line.high), colour: number,
        dash: number < COLOURS ? undefined : [6, 4], points: { show: count < 2 },
      })),
    };
  };

  const ofPoints = (chart) => {
    const times = [...new Set(chart.lines.flatMap((line) => line.at_s))].sort((a, b) => a - b);
    const place = new Map(times.map((time, index) => [time, index]));
    const several = new Set(chart.lines.map((line) => line.session)).size > 1;
    const spread = (line, values) => {
      const all = values && Array.from({ length: times.length });
      if (all) line.at_s.forEach((time, index) => { all[place.get(time)] = values[index]; });
      return all;
    };
    return {
      times,
      lines: chart.lines.map((line, number) => ({
        label: line.label, mean: spread(line, line.mean), low: spread(line, line.low),
        high: spread(line, line.high), colour: several ? line.session : number,
        dash: line.is_validation ? [5, 4] : undefined,
        points: { show: line.at_s.length <= DOTS, size: 5 },
      })),
    };
  };

  // The ends of the axis of a metric: from zero, unless all that is shown lies far above or below.
  const fitted = (low, high) => {
    if (low === null || high === null) return [0, 1];
    if (low >= 0 && low < 0.5 * high) return [0, high * 1.08];
    const pad = (high - low || Math.abs(high) || 1) * 0.08;
    return [low < 0 ? low - pad : Math.max(0, low - pad), high + pad];
  };

  const draw = (chart, parent, made, range, unit) => {
    const panel = element("div", parent, undefined, "panel");
    const title = element("h3", panel, chart.title + " ");
    const note = element("small", title, unit);
    const legend = element("div", panel, undefined, "legend");
    const time = element("span", legend, "");
    const readings = made.lines.map((line) => {
      const entry = element("span", legend, undefined, "c" + (line.colour % COLOURS) + (line.dash ? " dashed" : ""));
      element("i", entry);
      return element("span", entry, line.label);
    });
    const data = [made.times], series = [{}], bands = [], means = [];
    for (const line of made.lines) {
      const stroke = colour("--c" + (line.colour % COLOURS));
      if (line.low) {
        data.push(line.high, line.low);
        series.push({ points: { show: false } }, { points: { show: false } });
        bands.push({ series: [series.length - 2, series.length - 1], fill: stroke + "33" });
      }
      data.push(line.mean);
      series.push({ stroke, width: 1.6, points: { ...line.points, fill: stroke }, dash: line.dash });
      means.push(series.length - 1);
    }
    const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const say = (plot) => {
      const nearest = plot.cursor.idx, known = nearest !== null && nearest !== undefined;
      const moment = known ? plot.posToVal(plot.cursor.left, "x") : 0;
      time.textContent = known ? clock(moment) + markAt(moment, chart.width_s || whole / 200) : "";
      made.lines.forEach((line, number) => {
        let text = line.label, at = known ? nearest : -1;
        // Of values at their own times, the last that was known by then.
        if (!chart.width_s) while (at >= 0 && (line.mean[at] === undefined || made.times[at] > moment)) at--;
        if (at >= 0) {
          text += " " + figure(line.mean[at], unit);
          const low = line.low && line.low[at], high = line.high && line.high[at];
          if (typeof low === "number" && low < high) text += " (" + written(low, unit) + " to " + written(high, unit) + ")";
        }
        readings[number].textContent = text;
      });
    };
    const plot = new uPlot({
      width: panel.clientWidth, height: HEIGHT, legend: { show: false }, series, bands,
      scales: {
        x: { time: false, range: (_, low, high) => [Math.max(0, low), Math.min(whole, high)] },
        y: { range: (_, low, high) => range(low, high) },
      },
      axes: [
        { ...axis, size: 34, values: (_, splits) => splits.map(clock), incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400] },
        { ...axis, size: 64, values: (_, splits) => splits.map(tick) },
      ],
      cursor: {
        sync: { key: "dlmon" }, drag: { x: true, y: false },
        // A band has none.
        points: { size: (plot, number) => means.includes(number) ? plot.series[number].points.size : 0 },
      },
      hooks: {
        draw: [marks], setCursor: [say],
        setScale: [(plot, key) => {
          if (key === "x") follow(plot, plot.scales.x.min, plot.scales.x.max);
          else if (key === "y" && plot.scales.y.min > 0) note.textContent = "axis from " + tick(Number(plot.scales.y.min.toPrecision(3)));
          else if (key === "y") note.textContent = unit;
        }],
      },
    }, data, panel);
    return plot;
  };

  const drawChart = (chart) => draw(
    chart, place, ofColumns(chart), (low, high) => [0, chart.top || (high > 0 ? high * 1.08 : 1)], chart.unit,
  );

  const drawAll = () => {
    const kept = range;
    plots.forEach((plot) => plot.destroy());
    plots = [];
    place.replaceChildren();
    following = true;
    // The loss stands below the throughput: the machine comes after what it trains.
    const first = drawn.charts.filter((chart) => chart.title.startsWith("Throughput")).length;
    plots = drawn.charts.slice(0, first).map(drawChart);
    if (drawn.metrics.length) {
      const grid = element("div", place, undefined, "metrics");
      plots.push(...drawn.metrics.map((chart) => draw(chart, grid, ofPoints(chart), fitted, "")));
    }
    plots.push(...drawn.charts.slice(first).map(drawChart));
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
    plots.forEach((plot) => plot.setSize({ width: plot.root.parentNode.clientWidth, height: HEIGHT }));
  }).observe(place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  addEventListener("beforeprint", () => { document.documentElement.dataset.print = ""; drawAll(); });
  addEventListener("afterprint", () => { delete document.documentElement.dataset.print; drawAll(); });
})();
