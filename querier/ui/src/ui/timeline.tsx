// Lines over time. Everything that knows uPlot is in this file.
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { timesOf, type Buckets } from '../series';
import { moment, tickText, utc, zoneName, type Range } from '../time';
import { theme } from './theme';

export interface Line {
  label: string;
  color: string;
  values: (number | null)[];
  filling?: number; // from here on the values are of a bucket that is not over
}
/** A part of the range that is marked in a colour. */
export interface Band { range: Range; color: string }

interface Props {
  label: string; // what the lines are, for those who cannot see them
  range: Range;
  buckets: Buckets;
  lines: Line[];
  height: number;
  top?: number; // the largest value of all charts that are to be compared with this one
  write: (v: number, like?: number) => string;
  band?: Band;
  onSelect?: (range: Range) => void;
}

const AXIS_LEFT = 64, AXIS_BELOW = 26, ABOVE = 8, RIGHT = 26, TICKS_APART = 90, LEAST_DRAG_PX = 4, TOLD = 8;
const HOW_TO_SELECT = 'Drag to choose a time range; the time range button has fields for the same.';
const FONT = '11px "Inter Variable", system-ui, sans-serif';

/** A round number near v: 1, 2 or 5 with zeros. */
export function roundStep(v: number): number {
  const power = 10 ** Math.floor(Math.log10(v || 1)), f = v / power;
  return (f < 1.5 ? 1 : f < 3 ? 2 : f < 7 ? 5 : 10) * power;
}

/** light-dark() is for style sheets; a canvas wants the colour itself. */
function axisColors(): { text: string; line: string } {
  const dark = theme.value === 'dark';
  return { text: dark ? '#a7b0bc' : '#4d5866', line: dark ? '#262d37' : '#e1e5ea' };
}

const DASH = [3, 3];

/** The part of a line that is over, and the part that is still filling. They share the last value that is over, so that the line goes on. */
function halves({ values, filling = values.length }: Line): (number | null)[][] {
  const last = values.findLastIndex((v, i) => i < filling && v !== null);
  return [values.map((v, i) => (i < filling ? v : null)), values.map((v, i) => (filling < values.length && i >= Math.min(filling, last < 0 ? filling : last) ? v : null))];
}

interface Pointer { left: number; top: number }

function makePlot(box: HTMLElement, width: number, p: Props, times: number[], at: Pointer | null, onPoint: (i: number | null, left: number) => void): uPlot {
  const { text, line } = axisColors(), axis = { stroke: text, font: FONT, grid: { stroke: line, width: 1 }, ticks: { show: false } };
  const fill = (of: string) => (u: uPlot) => {
    const g = u.ctx.createLinearGradient(0, u.bbox.top, 0, u.bbox.top + u.bbox.height);
    g.addColorStop(0, of + (p.lines.length === 1 ? '66' : '1c'));
    g.addColorStop(1, `${of}05`);
    return g;
  };
  const drawBand = (u: uPlot) => {
    if (!p.band) return;
    const x = u.valToPos(p.band.range.start / 1e3, 'x', true), w = u.valToPos(p.band.range.end / 1e3, 'x', true) - x;
    u.ctx.fillStyle = `${p.band.color}2a`;
    u.ctx.fillRect(x, u.bbox.top, w, u.bbox.height);
    u.ctx.fillStyle = p.band.color;
    u.ctx.fillRect(x, u.bbox.top, w, 2 * devicePixelRatio);
  };
  const select = (u: uPlot) => {
    const { left, width: w } = u.select;
    if (w <= LEAST_DRAG_PX) return;
    const at = (px: number) => Math.round(u.posToVal(px, 'x') * 1e3);
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    p.onSelect?.({ start: at(left), end: at(left + w) });
  };
  return new uPlot({
    width, height: p.height, padding: [ABOVE, RIGHT, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: p.onSelect !== undefined, y: false, setScale: false }, points: { size: 6 } },
    tzDate: (s) => (utc.value ? uPlot.tzDate(new Date(s * 1e3), 'Etc/UTC') : new Date(s * 1e3)),
    scales: {
      x: { range: [p.range.start / 1e3, p.range.end / 1e3] },
      y: { range: (_u, _min, max) => [0, Math.max(max, p.top ?? 0) * 1.1 || 1] },
    },
    axes: [
      { ...axis, space: TICKS_APART, size: AXIS_BELOW, gap: 7, values: (_u, marks, _a, _s, apart) => marks.map((s) => tickText(s * 1e3, apart)) },
      {
        ...axis, size: AXIS_LEFT, gap: 8,
        splits: (_u, _axis, _min, max) => {
          const step = roundStep(max / 3);
          return [0, 1, 2, 3].map((k) => k * step).filter((v) => v <= max);
        },
        values: (_u, marks) => marks.map((v) => (v === 0 ? '0' : p.write(v, marks[marks.length - 1]).replace(/ ?cores?$/, ''))),
      },
    ],
    series: [{}, ...p.lines.flatMap((l): uPlot.Series[] => {
      const look = { label: l.label, stroke: l.color, width: 1.5, points: { show: l.values.filter((v) => v !== null).length === 1 }, spanGaps: true };
      const last = l.values.findLastIndex((v) => v !== null), points = { show: true, size: 5, filter: () => (l.filling !== undefined && last >= l.filling ? [last] : []) };
      return [{ ...look, fill: fill(l.color) }, { ...look, dash: DASH, points }];
    })],
    hooks: {
      ready: [(u) => at && u.setCursor(at)],
      drawClear: [drawBand],
      setSelect: [select],
      setCursor: [(u) => onPoint(u.cursor.left! < 0 ? null : u.cursor.idx ?? null, u.cursor.left! + AXIS_LEFT)],
    },
  }, [times, ...p.lines.flatMap(halves)] as uPlot.AlignedData, box);
}

export function Timeline(p: Props) {
  const box = useRef<HTMLDivElement>(null), [width, setWidth] = useState(0);
  const plot = useRef<uPlot | null>(null), drawn = useRef({ times: [] as number[], lines: p.lines });
  const held = useRef(false), [freed, setFreed] = useState(0);
  const [point, setPoint] = useState<{ i: number; left: number } | null>(null);
  const times = useMemo(() => timesOf(p.buckets), [p.buckets]), latest = useRef(p);
  latest.current = p;
  useEffect(() => {
    const watch = new ResizeObserver(([e]) => setWidth(Math.floor(e.contentRect.width)));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  const scheme = theme.value, zone = utc.value, selectable = p.onSelect !== undefined;
  useLayoutEffect(() => {
    if (width === 0 || held.current) return;
    const onSelect = selectable ? (range: Range) => latest.current.onSelect?.(range) : undefined;
    const { left = -1, top = -1 } = plot.current?.cursor ?? {}, at = left >= 0 ? { left, top } : null; // the pointer is where it was
    plot.current?.destroy();
    drawn.current = { times, lines: p.lines };
    if (!at) setPoint(null);
    plot.current = makePlot(box.current!, width, { ...latest.current, onSelect }, times, at, (i, x) => setPoint(i === null ? null : { i, left: x }));
    box.current!.dataset.filling = String(Math.min(...p.lines.map((l) => l.filling ?? l.values.length), times.length));
    box.current!.dataset.drawn = `${p.range.start} ${p.range.end}`;
  }, [width, times, p.lines, p.range.start, p.range.end, p.height, p.top, p.band?.range.start, p.band?.range.end, p.band?.color, selectable, scheme, zone, freed]);
  useLayoutEffect(() => () => plot.current?.destroy(), []);
  /** While a range is drawn out newer lines wait: with the picture the half-drawn range would go. */
  const hold = (e: MouseEvent) => {
    if (e.button !== 0) return;
    held.current = true;
    addEventListener('mouseup', () => {
      held.current = false;
      setFreed((n) => n + 1);
    }, { once: true });
  };
  const { times: at, lines } = drawn.current;
  return (
    <div class="plot" style={{ height: `${p.height}px` }}>
      <div ref={box} class="canvas" role="img" aria-label={selectable ? `${p.label}. ${HOW_TO_SELECT}` : p.label} onMouseDown={hold} />
      {point && point.i < at.length && (
        <Reading at={at[point.i] * 1e3} index={point.i} left={point.left} width={width} lines={lines} write={p.write} />
      )}
    </div>
  );
}

interface ReadingProps { at: number; index: number; left: number; width: number; lines: Line[]; write: (v: number) => string }

/** The values at the pointer, largest first. */
function Reading({ at, index, left, width, lines, write }: ReadingProps) {
  const told = lines.map((l) => ({ l, v: l.values[index] ?? null })).filter((x) => x.v !== null).sort((a, b) => b.v! - a.v!).slice(0, TOLD);
  const side = left > width / 2 ? { right: `${width - left + 12}px` } : { left: `${left + 14}px` };
  return (
    <div class="reading num" style={side}>
      <div class="dim">{moment(at)} {zoneName(at)}</div>
      {told.map(({ l, v }) => <div key={l.label}><i style={{ background: l.color }} /><span class="cut">{l.label}</span><b>{write(v!)}</b></div>)}
      {told.some(({ l }) => index >= (l.filling ?? Infinity)) && <div class="dim">still filling, so far</div>}
      {told.length === 0 && <div>no profiles</div>}
    </div>
  );
}

const SPARK_WIDTH = 300, SPARK_HEIGHT = 56;

interface SparkProps { values: (number | null)[]; filling: number; color: string }

/** A line without axes. Values that are unknown are left out; those of a bucket that is not over are dashed. */
export function Spark({ values, filling, color: stroke }: SparkProps) {
  const most = Math.max(...values.map((v) => v ?? 0)) * 1.08 || 1, last = Math.max(1, values.length - 1);
  const dot = (v: number, i: number) => `${((i / last) * SPARK_WIDTH).toFixed(1)} ${(SPARK_HEIGHT - (v / most) * (SPARK_HEIGHT - 2)).toFixed(1)}`;
  const dots = values.flatMap((v, i) => (v === null ? [] : [dot(v, i)])), over = values.slice(0, filling).filter((v) => v !== null).length;
  const path = (of: string[]) => (of.length === 1 ? `M${of[0]}h${parseFloat(of[0]) > 8 ? -8 : 8}` : `M${of.join('L')}`), look = { fill: 'none', stroke, 'stroke-width': 1.5, 'vector-effect': 'non-scaling-stroke' } as const;
  if (dots.length === 0) return <svg class="spark" viewBox={`0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}`} aria-hidden="true" />;
  const [firstX] = dots[0].split(' '), [lastX] = dots[dots.length - 1].split(' ');
  return (
    <svg class="spark" viewBox={`0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      <path d={`${path(dots)}L${lastX} ${SPARK_HEIGHT}L${firstX} ${SPARK_HEIGHT}Z`} fill={stroke} fill-opacity=".16" />
      {over > 0 && <path d={path(dots.slice(0, over))} {...look} />}
      {over < dots.length && <path class="filling" d={path(dots.slice(Math.max(0, over - 1)))} {...look} stroke-dasharray="3 3" />}
    </svg>
  );
}
