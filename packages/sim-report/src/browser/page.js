/**
 * The script inside a page: draws the charts that the document's data describe. Plain JavaScript for browsers, put into
 * the page as it stands (src/html.ts), after the plotting library and the data.
 */
(() => {
  const { echarts, document, addEventListener } = /** @type {any} */ (globalThis);
  /** @type {import("../html.ts").PageData} */
  const page = JSON.parse(document.getElementById("page-data").textContent);
  /** @type {any[]} */
  const charts = [];
  /** Above the accelerators, so that it is seen before anything is scrolled. */
  const REFUSED_ROW = 0;

  /** @param {number} value */
  const short = (value) =>
    typeof value === "number" ? Number(value.toPrecision(4)).toLocaleString("en-US") : String(value ?? "");
  /** @param {string} text */
  const escape = (text) => echarts.format.encodeHTML(text);

  for (const [id, option] of Object.entries(page.charts)) {
    const chart = echarts.init(document.getElementById(id));
    chart.setOption({ ...option, tooltip: { trigger: "axis", confine: true, valueFormatter: short } });
    charts.push(chart);
  }
  if (page.timeline !== undefined) charts.push(timelineChart(page.timeline));
  addEventListener("resize", () => charts.forEach((chart) => chart.resize()));

  /** @param {import("../html.ts").TimelineData} data */
  function timelineChart(data) {
    const chart = echarts.init(document.getElementById("timeline"));
    /** @type {Set<number>} */
    const chosen = new Set();
    chart.setOption(timelineOption(data, chosen));
    for (const row of document.querySelectorAll("tr[data-model]")) {
      row.addEventListener("click", () => {
        const model = Number(row.dataset.model);
        if (!chosen.delete(model)) chosen.add(model);
        row.classList.toggle("chosen", chosen.has(model));
        chart.setOption({ series: timelineSeries(data, chosen) });
      });
    }
    return chart;
  }

  /** @param {import("../html.ts").TimelineData} data @param {Set<number>} chosen */
  function timelineOption(data, chosen) {
    const rows = Array.from({ length: data.gpus }, (_, gpu) => `#${gpu}`);
    const zoomY =
      data.gpus <= 40
        ? []
        : [{ type: "slider", yAxisIndex: 0, right: 8, width: 16, startValue: 0, endValue: 32, filterMode: "none" }];
    return {
      animation: false,
      grid: { left: 64, right: data.gpus <= 40 ? 24 : 48, top: 16, bottom: 84 },
      xAxis: {
        type: "value",
        min: 0,
        max: data.until,
        name: "time since the beginning (ms)",
        nameLocation: "middle",
        nameGap: 28,
        axisLabel: { formatter: short },
      },
      yAxis: { type: "category", data: ["refused", ...rows], inverse: true, axisTick: { show: false } },
      dataZoom: [
        { type: "slider", xAxisIndex: 0, bottom: 12, height: 20, filterMode: "weakFilter", labelFormatter: short },
        { type: "inside", xAxisIndex: 0, filterMode: "weakFilter" },
        ...zoomY,
      ].map((zoom) =>
        "yAxisIndex" in zoom ? zoom : { ...zoom, startValue: data.window.from, endValue: data.window.to },
      ),
      tooltip: { confine: true, formatter: (/** @type {any} */ hit) => tooltip(data, hit) },
      series: timelineSeries(data, chosen),
    };
  }

  /** @param {import("../html.ts").TimelineData} data @param {Set<number>} chosen */
  function timelineSeries(data, chosen) {
    const { batches, refusals } = data;
    const shown = (/** @type {number} */ model) => chosen.size === 0 || chosen.has(model);
    const colour = (/** @type {number} */ model) => (shown(model) ? data.models[model]?.colour : "#d9dde0");
    return [
      {
        id: "batches",
        type: "custom",
        clip: true,
        encode: { x: [0, 1], y: 2 },
        data: batches.begin.map((begin, i) => [begin, batches.end[i], REFUSED_ROW + 1 + (batches.gpu[i] ?? 0)]),
        markArea: {
          silent: true,
          itemStyle: { color: "rgba(95, 107, 118, 0.10)" },
          data: data.warmup > 0 ? [[{ xAxis: 0 }, { xAxis: data.warmup }]] : [],
        },
        renderItem: (/** @type {any} */ params, /** @type {any} */ api) => {
          const i = params.dataIndex;
          const fill = colour(batches.model[i] ?? 0);
          const whole = batches.completed[i] === 1;
          const style = whole ? { fill } : { fill: "#fff", stroke: fill, lineWidth: 1.5, lineDash: [3, 2] };
          return bar(params, api, { style, text: String(batches.size[i]), ink: whole ? "#fff" : "#20262c" });
        },
      },
      {
        id: "refusals",
        type: "custom",
        clip: true,
        encode: { x: 0, y: 1 },
        data: refusals.at.map((at) => [at, REFUSED_ROW]),
        renderItem: (/** @type {any} */ params, /** @type {any} */ api) => {
          const [x, y] = api.coord([api.value(0), api.value(1)]);
          const height = Math.min(18, api.size([0, 1])[1] * 0.8);
          const stroke = colour(refusals.model[params.dataIndex] ?? 0);
          const shape = { x1: x - 3, y1: y - height / 2, x2: x + 3, y2: y + height / 2 };
          const back = { ...shape, y1: shape.y2, y2: shape.y1 };
          const style = { stroke, lineWidth: 1.5 };
          return {
            type: "group",
            children: [
              { type: "line", shape, style },
              { type: "line", shape: back, style },
            ],
          };
        },
      },
    ];
  }

  /**
   * A batch from its begin to its end, with its size in it where there is room. @param {any} params @param {any} api
   * @param {any} look
   */
  function bar(params, api, { style, text, ink }) {
    const [x, y] = api.coord([api.value(0), api.value(2)]);
    const right = api.coord([api.value(1), api.value(2)])[0];
    const height = Math.min(26, api.size([0, 1])[1] * 0.76);
    const whole = { x, y: y - height / 2, width: Math.max(0.8, right - x - 0.5), height };
    const area = params.coordSys;
    const shape = echarts.graphic.clipRectByRect(whole, area);
    if (shape === undefined) return undefined;
    const rect = { type: "rect", shape, style };
    if (shape.width < 9 * text.length + 4 || height < 11) return rect;
    const label = {
      type: "text",
      silent: true,
      style: {
        text,
        x: shape.x + shape.width / 2,
        y,
        align: "center",
        verticalAlign: "middle",
        fill: ink,
        fontSize: 11,
      },
    };
    return { type: "group", children: [rect, label] };
  }

  /** @param {import("../html.ts").TimelineData} data @param {any} hit */
  function tooltip({ batches, refusals, models, causes }, { seriesId, dataIndex: i }) {
    if (seriesId === "refusals") {
      const name = escape(models[refusals.model[i] ?? 0]?.name ?? "");
      return `<b>${name}</b><br>refused at ${short(refusals.at[i] ?? 0)} ms: ${causes[refusals.cause[i] ?? 0]}`;
    }
    const begin = batches.begin[i] ?? 0;
    const end = batches.end[i] ?? 0;
    const lines = [
      `<b>${escape(models[batches.model[i] ?? 0]?.name ?? "")}</b>, ${batches.size[i]} in a batch`,
      `accelerator #${batches.gpu[i]}`,
      `${begin.toFixed(3)} to ${end.toFixed(3)} ms (${(end - begin).toFixed(3)} ms)`,
    ];
    return [...lines, ...(batches.completed[i] === 1 ? [] : ["preempted"])].join("<br>");
  }
})();
