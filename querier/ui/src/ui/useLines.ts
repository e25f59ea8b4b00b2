// Values over time for a page: asked for the buckets of the range, kept with them.
import { series, type SeriesRequest } from '../api/client';
import { isGauge, rateOf } from '../ptype';
import { bucketsOf, lineOf, type Buckets, type Values } from '../series';
import type { Range } from '../time';
import { useLoad, type Loaded } from './load';

export interface GroupLine extends Values { group: string; sum: number }
export interface Lines { type: string; range: Range; buckets: Buckets; lines: GroupLine[] }

type Wanted = Pick<SeriesRequest, 'type' | 'selector' | 'groupBy' | 'limit'>;

/** `period` names the range, which is looked at when the question is sent. */
export function useLines(wanted: Wanted | null, period: string, range: (now?: number) => Range, again: number): Loaded<Lines> {
  const question = wanted && `${wanted.type} ${wanted.selector} ${wanted.groupBy ?? ''} ${wanted.limit ?? ''} ${period}`;
  return useLoad<Lines>(question, again, async (signal) => {
    const { type } = wanted!, now = Date.now(), within = range(now), buckets = bucketsOf(within, now), gauge = isGauge(type), rate = rateOf(type);
    const answer = await series({ ...wanted!, buckets, gauge }, signal);
    const lines = answer.map(({ group, points }) => ({
      group, ...lineOf(points, buckets, rate, gauge), sum: points.reduce((sum, p) => sum + p.v, 0),
    }));
    return { type, range: within, buckets, lines };
  });
}
