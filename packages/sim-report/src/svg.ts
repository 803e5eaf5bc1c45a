/** Charts to SVG without a browser: the same options as in pages. */
import { BarChart, BoxplotChart, LineChart, ScatterChart } from "echarts/charts";
import { GridComponent, LegendComponent, MarkLineComponent, TitleComponent } from "echarts/components";
import { type EChartsCoreOption, init, setPlatformAPI, use } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import { SVG_SIZE, textWidth } from "./charts/axes.ts";

use([BarChart, BoxplotChart, LineChart, ScatterChart]);
use([GridComponent, LegendComponent, MarkLineComponent, TitleComponent, SVGRenderer]);

setPlatformAPI({
  measureText: (text, font) => ({ width: textWidth(text, Number(/([\d.]+)px/.exec(font ?? "")?.[1] ?? 12)) }),
});

export function toSvg(option: EChartsCoreOption, size: { width: number; height: number } = SVG_SIZE): string {
  const drawing = init(null, null, { renderer: "svg", ssr: true, ...size });
  try {
    drawing.setOption(option);
    return drawing.renderToSVGString();
  } finally {
    drawing.dispose();
  }
}
