// Where else there is something, for a range that has nothing.
import { series, stats } from './api/client';
import { selector, splitSpans, type Query } from './query';
import { bucketsOf, type Point } from './series';
import type { Range } from './time';

/** Looks at all that there is, then twice at a part of it: at 400 points each that is a minute of ten years. */
const LOOKS = 3;
/** The server refuses longer ranges unless it is told otherwise. */
const LONGEST_MS = 399 * 86400e3;

/** The point whose bucket, which ends at it, is nearest to the range. */
export function closest(points: Point[], step: number, { start, end }: Range): Point | null {
  const distance = ({ t }: Point) => Math.max(0, start - t, t - step - end);
  return points.filter((p) => p.v !== 0).reduce<Point | null>((best, p) => (best && distance(best) <= distance(p) ? best : p), null);
}

/** As long a range, next to the one asked for, in which the query finds something; null if it does nowhere. */
export async function nearestRange(query: Query, range: Range, signal: AbortSignal): Promise<Range | null> {
  const { oldestMs, newestMs } = await stats(signal), length = range.end - range.start;
  if (newestMs === null) return null;
  const oldest = Math.max(oldestMs ?? 0, newestMs - LONGEST_MS);
  let look: Range = { start: oldest - 1, end: newestMs }, found: Range | null = null;
  for (let i = 0; i < LOOKS; i++) {
    const buckets = bucketsOf(look), asked = { type: query.type, selector: selector(splitSpans(query.matchers).plain), buckets, gauge: false, atTimes: true };
    const point = closest((await series(asked, signal)).flatMap((s) => s.points), buckets.step, range);
    if (!point) break;
    look = found = { start: point.t - buckets.step, end: point.t };
    if (buckets.step <= length / 4) break;
  }
  if (!found) return null;
  const end = Math.round(found.end <= range.start ? found.end : Math.min(found.start + length, newestMs + 1000));
  return { start: end - Math.round(length), end };
}
