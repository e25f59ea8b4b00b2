// Values over time: which buckets to ask for, and what the answer means. The server answers with points where it has
// something; point t sums what lies in (t - step, t].
import type { Rate } from './ptype';
import type { Range } from './time';

const MOST_POINTS = 400;
/** Most agents send every 10, 15 or 30 seconds: as many of each fall into every bucket of 30. */
const USUAL_STEP_MS = 30e3, FEW_POINTS = 30;
const LADDER_MS = [
  1, 2, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
].map((s) => s * 1e3);

/** Buckets of a round width that cover a range; they are aligned, so that a later look sees the same ones. */
export interface Buckets {
  first: number; // right edge of the first, in ms
  step: number;
  count: number;
  now: number; // when the server was asked: what lies later is not known yet
}

export function bucketsOf({ start, end }: Range, now = end): Buckets {
  const wanted = Math.max((end - start) / (MOST_POINTS - 2), Math.min(USUAL_STEP_MS, (end - start) / FEW_POINTS));
  const longest = LADDER_MS[LADDER_MS.length - 1];
  const step = LADDER_MS.find((s) => s >= wanted) ?? Math.ceil(wanted / longest) * longest;
  const first = Math.floor(start / step) * step + step;
  return { first, step, count: Math.max(1, Math.ceil((end - first) / step) + 1), now };
}

export interface Point { t: number; v: number } // right edge in ms, sum

/** So long after its time a profile may come. */
const LATE_MS = 60e3;
/** Gaps longer than so many usual ones are not the rhythm of an agent: nothing ran. */
const PAUSE = 3;
const LEAST_GAPS = 3, LEAST_BUCKETS = 3, SMOOTH_BUCKETS = 20, MOST_TURNS = 6;

/** Taken together are `by` buckets, from those whose number (right edge through step) is `at` more than a multiple of it. */
export interface Rhythm { by: number; at: number; gap: number } // gap: from push to push, in buckets

const numberOf = (t: number, b: Buckets): number => Math.round(t / b.step);
const middle = (sorted: number[]): number => sorted[sorted.length >> 1];
const sortedUp = (list: number[]): number[] => [...list].sort((x, y) => x - y);

/** The least number of buckets that a whole number of gaps fills, or nearly so. */
function wholeOf(gap: number, most: number): number {
  let best = 1, least = Infinity;
  for (let turns = 1; turns <= MOST_TURNS; turns++) {
    const by = Math.round(turns * gap), off = Math.abs(by / (turns * gap) - 1);
    if (by > most || off >= least * 0.99) continue;
    [best, least] = [by, off];
    if (off <= 0.02) break;
  }
  return best;
}

/** The period after which pushes of several instances come again, or 0. */
function periodOf(filled: number[], gap: number, most: number): number {
  const there = new Set(filled), last = filled[filled.length - 1];
  for (let by = Math.ceil(gap); by <= most; by++) {
    const early = filled.filter((n) => n + by <= last);
    const again = early.filter((n) => there.has(n + by) || (gap > 4 && (there.has(n + by - 1) || there.has(n + by + 1))));
    if (again.length >= early.length * 0.9) return by;
  }
  return 0;
}

/** The period of a line that goes up and down because now more, now fewer pushes fall into a bucket, or 0. */
function combOf(points: Point[], b: Buckets): number {
  const sums = new Map(points.map((p) => [numberOf(p.t, b), p.v])), all = points.reduce((sum, p) => sum + p.v, 0);
  const apart = (by: number) => {
    const pairs = points.map(({ t, v }) => Math.abs(v - (sums.get(numberOf(t, b) + by) ?? NaN))).filter((d) => d >= 0);
    return pairs.length < points.length / 2 ? Infinity : pairs.reduce((sum, d) => sum + d, 0) / pairs.length;
  };
  const near = apart(1);
  if (points.length < SMOOTH_BUCKETS || near < (all / points.length) * 0.2) return 0;
  for (let by = 2; by <= MOST_TURNS; by++) if (apart(by) <= near * 0.3) return by;
  return 0;
}

/** Where to cut so that pushes lie far from the edges: one that comes a moment late stays in its bucket. */
function cutOf(filled: number[], by: number): number {
  const there = new Array<number>(by).fill(0);
  for (const n of filled) there[n % by]++;
  let best = 0, least = Infinity;
  for (let at = 0; at < by; at++) {
    const cost = there.reduce((sum, k, j) => sum + k * Math.abs(((j - at + by) % by) + 0.5 - by / 2) ** 2, 0);
    if (cost < least - 1e-9) [best, least] = [at, cost];
  }
  return best;
}

/**
 * How to take buckets together so that a line does not show when profiles come, but how much they hold: a whole multiple
 * of the interval of the pushes. 1 if nearly every bucket has a push, or if it came at once and then nothing.
 */
export function rhythmOf(points: Point[], b: Buckets): Rhythm {
  const filled = sortedUp([...new Set(points.map((p) => numberOf(p.t, b)))]), alone = { by: 1, at: 0, gap: 1 };
  const gaps = filled.slice(1).map((n, i) => n - filled[i]), steady = gaps.filter((g) => g <= middle(sortedUp(gaps)) * PAUSE);
  if (gaps.length < LEAST_GAPS) return alone;
  const gap = steady.reduce((sum, g) => sum + g, 0) / steady.length, most = Math.floor(b.count / LEAST_BUCKETS);
  if (gap <= 1.05) return { ...alone, by: combOf(points, b) || 1 };
  const regular = Math.max(...steady) - Math.min(...steady) <= Math.max(1, gap * 0.2);
  const by = regular ? wholeOf(gap, most) : periodOf(filled, gap, most) || Math.min(Math.max(2, Math.round(gap * 2)), Math.floor(b.count / SMOOTH_BUCKETS));
  return by > 1 ? { by, at: cutOf(filled, by), gap } : alone;
}

export interface Values {
  values: (number | null)[];
  filling: number; // from here on the values are of a bucket that is not over; the length if there is none
}

/** The value of one series in every bucket: rates, or the means of a gauge. Unknown is null. */
export function lineOf(points: Point[], b: Buckets, rate: Rate, gauge: boolean): Values {
  const { by, at, gap } = gauge ? { by: 1, at: 0, gap: 1 } : rhythmOf(points, b);
  const first = numberOf(b.first, b), groupOf = (n: number) => Math.floor((n - at) / by);
  const from = groupOf(first), groups = groupOf(first + b.count - 1) - from + 1, end = b.first + (b.count - 1) * b.step;
  const sums = new Array<number>(groups).fill(0), filled = new Array<number>(groups).fill(0);
  for (const { t, v } of points) {
    const n = numberOf(t, b), g = groupOf(n) - from;
    if (n < first || g >= groups) continue;
    sums[g] += v * rate.factor;
    filled[g]++;
  }
  const leftOf = (g: number) => ((from + g) * by + at - 1) * b.step, rightOf = (g: number) => leftOf(g) + by * b.step;
  const known = sums.map((sum, g): number | null => {
    const left = leftOf(g), length = by * b.step, elapsed = Math.min(rightOf(g), end, b.now) - left;
    if (gauge) return filled[g] > 0 ? sum / filled[g] : null;
    if (left < b.first - b.step || elapsed <= 0) return null; // begins before the range, or has not begun
    if (elapsed >= length) return sum / (length / 1e3);
    // Profiles may come all at once, and late: the time of the pushes counts, or else enough of it has to be over.
    const late = by > 1 ? filled[g] * gap * b.step : Math.min(length, LATE_MS);
    if (by === 1 && rightOf(g) > b.now && elapsed < late && sums.some((other, k) => k !== g && other > 0)) return null;
    return sum / (Math.min(length, Math.max(elapsed, late)) / 1e3);
  });
  // Where nothing has come yet something may be on its way.
  const late = LATE_MS + (by > 1 ? gap * b.step : 0), began = (g: number) => (rightOf(g) > b.now ? leftOf(g) : rightOf(g));
  for (let g = groups - 1; g >= 0 && filled[g] === 0 && began(g) > b.now - late; g--) known[g] = null;
  const values = Array.from({ length: b.count }, (_, i) => (leftEdge(b, i) < b.now ? known[groupOf(first + i) - from] : null));
  const open = values.findIndex((v, i) => v !== null && rightOf(groupOf(first + i) - from) > b.now);
  return { values, filling: open < 0 ? b.count : open };
}

const leftEdge = (b: Buckets, i: number): number => b.first + (i - 1) * b.step;
/** How much of a bucket is over, in ms. */
const timeOf = (b: Buckets, i: number): number => Math.max(0, Math.min(b.step, b.now - leftEdge(b, i)));

/** The middles of the buckets, as far as they are over, in seconds. */
export const timesOf = (b: Buckets): number[] =>
  Array.from({ length: b.count }, (_, i) => (leftEdge(b, i) + (timeOf(b, i) || b.step) / 2) / 1e3);

/** By time: a bucket that has just begun counts little. */
export function mean(values: (number | null)[], b: Buckets, from = 0, until = values.length): number {
  let sum = 0, time = 0;
  for (let i = from; i < until; i++) {
    const v = values[i];
    if (v === null) continue;
    sum += v * timeOf(b, i);
    time += timeOf(b, i);
  }
  return time > 0 ? sum / time : 0;
}

export const NEW = Infinity, GONE = -1;
const LEAST_TREND = 5, EDGE = 0.1;

/**
 * Change from the first half of the range to the second, as a part of the first. NEW if at the start there was nothing
 * for a tenth of the range, and for longer than ever after; GONE if so at the end. Null if there is too little to tell.
 */
export function trend(values: (number | null)[], b: Buckets, gauge: boolean): number | null {
  const known = values.flatMap((v, i) => (v === null ? [] : [i])), there = known.filter((i) => values[i]! > 0);
  if (there.length === 0) return null;
  // A gauge is unknown where nothing ran; a rate is unknown only where the server was not asked, or not yet.
  const begin = gauge ? 0 : known[0], end = gauge ? Math.floor((b.now - LATE_MS - b.first) / b.step) : known[known.length - 1];
  const pause = Math.max(b.count * EDGE, ...there.slice(1).map((i, k) => i - there[k]));
  if (Math.min(end, b.count - 1) - there[there.length - 1] > pause) return GONE;
  if (there[0] - begin > pause) return NEW;
  if (known.length < LEAST_TREND) return null;
  const half = b.count >> 1, before = mean(values, b, 0, half), after = mean(values, b, half);
  return before > 0 ? after / before - 1 : null;
}
