import { scaleLinear, scaleLog } from "d3-scale";
import type { Pen } from "./pen";
import type { Theme } from "./theme";

export interface Series {
  name: string;
  colour: string;
  points: [number, number][];
  dots?: boolean;
}

export interface ChartOptions {
  width: number;
  height: number;
  series: Series[];
  theme: Theme;
  log?: boolean;
  cursor?: number | null; // a step on the horizontal axis
  end?: number; // right end of the horizontal axis
  format?: (value: number) => string;
}

const kMargin = { left: 58, right: 14, top: 12, bottom: 26 };

/** Draws lines over steps, thinned to the resolution of the screen. */
export function drawChart(pen: Pen, options: ChartOptions): void {
  const { width, height, series, theme } = options;
  const all = series.flatMap((one) => one.points).filter(([, y]) => Number.isFinite(y) && (!options.log || y > 0));
  if (all.length === 0) return;
  const x = horizontal(options);
  const [least, most] = [Math.min(...all.map(([, y]) => y)), Math.max(...all.map(([, y]) => y))];
  const y = (options.log ? scaleLog() : scaleLinear())
    .domain(least === most ? [least * 0.9, most * 1.1 || 1] : [least, most])
    .nice(4)
    .range([height - kMargin.bottom, kMargin.top]);
  const format =
    options.format ??
    ((value: number) =>
      Math.abs(value) >= 1000 ? `${+(value / 1000).toPrecision(3)}k` : String(+value.toPrecision(3)));
  for (const tick of options.log && y.ticks(4).length > 6 ? y.ticks(4).filter(isRound) : y.ticks(4)) {
    pen.line([kMargin.left, y(tick), width - kMargin.right, y(tick)], { colour: theme.faint });
    pen.text(format(tick), kMargin.left - 8, y(tick) + 4, { colour: theme.soft, size: 11, align: "end" });
  }
  for (const tick of x.ticks(Math.max(2, Math.floor(width / 120))))
    pen.text(tick.toLocaleString("en"), x(tick), height - 8, { colour: theme.soft, size: 11, align: "middle" });
  for (const one of series) {
    const step = Math.max(1, Math.floor(one.points.length / Math.max(200, width)));
    const kept = one.points.filter(
      ([, value], i) => Number.isFinite(value) && (i % step === 0 || i === one.points.length - 1),
    );
    pen.line(
      kept.flatMap(([at, value]) => [x(at), y(value)]),
      { colour: one.colour, width: one.dots ? 2.2 : 1.4, alpha: one.dots ? 1 : 0.8 },
    );
    if (one.dots && kept.length < 80)
      for (const [at, value] of kept) pen.circle(x(at), y(value), 3, { fill: one.colour });
  }
  if (options.cursor !== null && options.cursor !== undefined)
    pen.line([x(options.cursor), kMargin.top, x(options.cursor), height - kMargin.bottom], {
      colour: theme.ink,
      dash: [3, 3],
    });
}

function horizontal({ width, series, end }: ChartOptions) {
  const last = Math.max(1, end ?? 0, ...series.map((one) => one.points[one.points.length - 1]?.[0] ?? 0));
  return scaleLinear()
    .domain([0, last])
    .range([kMargin.left, width - kMargin.right]);
}

/** The step at a horizontal position. */
export function stepAt(options: ChartOptions, place: number): number {
  return horizontal(options).invert(place);
}

function isRound(value: number): boolean {
  return Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6;
}

/** The point nearest to a step. */
export function nearestTo(points: [number, number][], step: number): [number, number] | undefined {
  let best: [number, number] | undefined;
  for (const point of points) if (!best || Math.abs(point[0] - step) < Math.abs(best[0] - step)) best = point;
  return best;
}
