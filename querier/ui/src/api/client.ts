// The calls of the page: Connect unary, at addresses relative to the page so that a path prefix works.
import { readGraphResponse, readProfileResponse, writeDiffRequest, writeMergeRequest, type MergeRequest, type WireGraph } from './wire';
import { learn } from '../flame/names';
import { SERVICE } from '../query';
import type { Flame } from '../flame/model';
import type { Buckets, Point } from '../series';

/** A refused or failed call, in the server's words. */
export class CallError extends Error {
  constructor(readonly code: string, message: string) {
    super(message);
  }
}

/** Frames that an answer has and that there are, and the share of the total in stacks that it shows whole. */
export interface Frames { sent: number; all: number; share: number }
/** How exact an answer is, as far as the server says so in its headers. */
export interface Exactness {
  profiles: number | null; exact: string | null; tookMs: number | null; missing: string | null;
  since: number | null; // ms: something has been missing since then
  frames: Frames | null;
  cut: number | null; // the value of stacks that were cut when they were pushed
}
export interface GraphAnswer { graph: WireGraph; exactness: Exactness }
export type Catalog = Map<string, string[]>; // service -> profile types, both sorted
export interface Stats { ingested: boolean; oldestMs: number | null; newestMs: number | null }

const LONGEST_RETRY_S = 10;

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

async function failure(r: Response): Promise<CallError> {
  const text = await r.text().catch(() => '');
  try {
    const { code, message } = JSON.parse(text);
    if (typeof code === 'string') return new CallError(code, typeof message === 'string' ? message : '');
  } catch {
    // not a Connect error: something between the server and us, or another server
  }
  return new CallError('unknown', `HTTP ${r.status} ${r.statusText}`.trim());
}

/** Sends once, and once more if the server asks for a moment. */
async function call(method: string, type: string, body: BodyInit, signal: AbortSignal): Promise<Response> {
  const send = () => fetch(`./querier.v1.QuerierService/${method}`, {
    method: 'POST', body, signal,
    // Accept lets names of labels through that only newer clients expect, such as `k8s.pod`.
    headers: {
      'Content-Type': type, Accept: '*/*; allow-utf8-labelnames=true', 'Connect-Protocol-Version': '1',
      'Flametree-Partial': 'allow', // the page says what is missing
      'Flametree-Names': 'readable',
    },
  }).catch((e) => {
    throw signal.aborted ? e : new CallError('unavailable', 'The server did not answer. It may be down, or the network.');
  });
  let r = await send();
  const wait = Number(r.headers.get('Retry-After') ?? NaN);
  if ((r.status === 429 || r.status === 503) && wait <= LONGEST_RETRY_S) {
    await pause(wait * 1e3, signal);
    r = await send();
  }
  if (!r.ok) throw await failure(r);
  return r;
}

async function json<T>(method: string, body: unknown, signal: AbortSignal): Promise<T> {
  const r = await call(method, 'application/json', JSON.stringify(body), signal);
  return r.json().catch((e) => {
    throw signal.aborted ? e : new CallError('internal', `${method} answered with something that is not JSON.`);
  });
}

/** Services and their profile types in a range. Default values are left out of Connect's JSON, lists included. */
export async function catalog(start: number, end: number, signal: AbortSignal): Promise<Catalog> {
  type Series = { labelsSet?: { labels?: { name: string; value: string }[] }[] };
  const request = { start, end, labelNames: [SERVICE, '__profile_type__'] };
  const { labelsSet = [] } = await json<Series>('Series', request, signal);
  const found: [service: string, type: string][] = [];
  for (const { labels = [] } of labelsSet) {
    const of = (name: string) => labels.find((l) => l.name === name)?.value ?? '';
    if (of(SERVICE) && of('__profile_type__')) found.push([of(SERVICE), of('__profile_type__')]);
  }
  const byService: Catalog = new Map();
  for (const [service, type] of found.sort((a, b) => (a.join('\0') < b.join('\0') ? -1 : 1))) {
    byService.set(service, [...(byService.get(service) ?? []), type]);
  }
  return byService;
}

export async function stats(signal: AbortSignal): Promise<Stats> {
  type Answer = { dataIngested?: boolean; oldestProfileTime?: string | number; newestProfileTime?: string | number };
  const a = await json<Answer>('GetProfileStats', {}, signal);
  return { ingested: a.dataIngested ?? false, oldestMs: Number(a.oldestProfileTime ?? 0) || null, newestMs: Number(a.newestProfileTime ?? 0) || null };
}

/** Profiles that were refused, with their bytes; or parts of stored profiles that were left out or mended. */
export interface Loss { reason: string; kind: string; text: string; profiles?: number; bytes?: number; parts?: number }
/** All that was counted since a time. Without a list the server has no distributor that counts; a note is for people. */
export interface Losses { losses?: Loss[] | null; since?: string; note?: string }

export async function losses(signal: AbortSignal): Promise<Losses> {
  const r = await fetch('./distributor/losses', { signal });
  if (!r.ok) throw await failure(r);
  return r.json();
}

/** `query;dur=41` of a Server-Timing header, in ms. */
function duration(header: string | null): number | null {
  const found = /(?:^|,)\s*query\s*;[^,]*?dur=([\d.]+)/.exec(header ?? '');
  return found ? Number(found[1]) : null;
}

const whole = (text: string | null): number | null => (text !== null && /^\d+$/.test(text) ? Number(text) : null);

/** `sent=16384; all=215003; share=0.5436` */
export function readFrames(text: string | null): Frames | null {
  const found = /^sent=(\d+); *all=(\d+); *share=([\d.]+)$/.exec(text ?? '');
  return found && { sent: Number(found[1]), all: Number(found[2]), share: Number(found[3]) };
}
/** Does the answer leave frames out, or the picture parts of them, as bars have no width below zero? */
export const leavesOut = ({ frames }: Exactness, flame?: Flame): boolean =>
  (frames !== null && frames.sent < frames.all) || !!flame?.w.some((w, i) => !w || flame.self[i] < 0 || flame.right!?.self[i] < 0);

function readExactness(h: Headers): Exactness {
  return {
    profiles: whole(h.get('Flametree-Profiles')),
    exact: h.get('Flametree-Exact'),
    tookMs: duration(h.get('Server-Timing')),
    missing: h.get('Flametree-Missing'),
    since: Date.parse(h.get('Flametree-Missing-Since') ?? '') || null,
    frames: readFrames(h.get('Flametree-Frames')),
    cut: whole(h.get('Flametree-Cut')),
  };
}

async function graph(method: string, body: Uint8Array<ArrayBuffer>, signal: AbortSignal): Promise<GraphAnswer> {
  const r = await call(method, 'application/proto', body, signal), found = readGraphResponse(new Uint8Array(await r.arrayBuffer()));
  learn(found.readable.map(([index, text]) => [found.names[index] ?? '', text]));
  return { graph: found, exactness: readExactness(r.headers) };
}

export const merged = (request: MergeRequest, signal: AbortSignal): Promise<GraphAnswer> =>
  graph('SelectMergeStacktraces', writeMergeRequest(request), signal);

/** Everything that the request finds, as a pprof profile. */
export async function profile(request: MergeRequest, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  const r = await call('SelectMergeStacktraces', 'application/proto', writeMergeRequest({ ...request, asProfile: true, maxNodes: 0 }), signal);
  return readProfileResponse(new Uint8Array(await r.arrayBuffer()));
}

export const compared = (left: MergeRequest, right: MergeRequest, signal: AbortSignal): Promise<GraphAnswer> =>
  graph('Diff', writeDiffRequest(left, right), signal);

/** A function with its sums. The values of `right` are 0 unless two profiles are compared. */
export interface NamedRow { name: string; self: number; total: number; rightSelf: number; rightTotal: number }

/** The sums of all functions, whatever a flame graph can show: without a limit there is none. */
export async function functions(left: MergeRequest, right: MergeRequest | null, signal: AbortSignal): Promise<NamedRow[]> {
  type Wire = { name?: string } & { [sum: string]: string };
  type Table = { functions?: Wire[]; readableNames?: { index?: number; text?: string }[] };
  const of = (q: MergeRequest) => ({
    profileTypeID: q.type, labelSelector: q.selector, start: Math.round(q.start), end: Math.round(q.end), format: 'PROFILE_FORMAT_FUNCTIONS',
    ...(q.path?.length ? { stackTraceSelector: { callSite: q.path.map((name) => ({ name })) } } : {}),
    ...(q.spans?.length ? { spanSelector: q.spans } : {}),
  });
  const { functions: table } = right
    ? await json<{ functions?: Table }>('Diff', { left: of(left), right: of(right) }, signal)
    : await json<{ functions?: Table }>('SelectMergeStacktraces', of(left), signal);
  if (!table) throw new CallError('unimplemented', 'The server has no table of functions.');
  const rows = table.functions ?? [], sum = (r: Wire, key: string) => Number(r[key] ?? 0);
  learn((table.readableNames ?? []).map((r) => [rows[r.index ?? 0]?.name ?? '', r.text ?? '']));
  return rows.map((r) => ({
    name: r.name ?? '', self: sum(r, right ? 'leftSelf' : 'self'), total: sum(r, right ? 'leftTotal' : 'total'),
    rightSelf: sum(r, 'rightSelf'), rightTotal: sum(r, 'rightTotal'),
  }));
}

export interface SeriesRequest { type: string; selector: string; buckets: Buckets; groupBy?: string; gauge: boolean; limit?: number; atTimes?: boolean }
export interface SeriesAnswer { group: string; points: Point[] } // the value of the label grouped by, or nothing

/** Values over time, largest series first. */
export async function series(q: SeriesRequest, signal: AbortSignal): Promise<SeriesAnswer[]> {
  type Wire = { series?: { labels?: { value?: string }[]; points?: { value?: number; timestamp?: string | number }[] }[] };
  const { first, step, count } = q.buckets;
  const answer = await json<Wire>('SelectSeries', {
    // One bucket more is asked for, and left out: profiles that begin there last into the first one.
    profileTypeID: q.type, labelSelector: q.selector, start: first - step, end: first + (count - 1) * step, step: step / 1e3,
    // Agents send profiles of 15 s, say: at their times alone they would draw a comb. A mean is of whole profiles.
    groupBy: q.groupBy ? [q.groupBy] : [], ...(q.gauge ? { aggregation: 'TIME_SERIES_AGGREGATION_TYPE_AVERAGE' } : { spread: !q.atTimes }),
    ...(q.limit ? { limit: q.limit } : {}),
  }, signal);
  return (answer.series ?? []).map((s) => ({
    group: s.labels?.[0]?.value ?? '',
    points: (s.points ?? []).map((p) => ({ t: Number(p.timestamp ?? 0), v: Number(p.value ?? 0) })).filter((p) => p.t >= first),
  }));
}

type Names = { names?: string[] };

export async function labelNames(selector: string, range: { start: number; end: number }, signal: AbortSignal): Promise<string[]> {
  return (await json<Names>('LabelNames', { matchers: [selector], ...range }, signal)).names ?? [];
}

export async function labelValues(name: string, selector: string, range: { start: number; end: number }, signal: AbortSignal): Promise<string[]> {
  return (await json<Names>('LabelValues', { name, matchers: [selector], ...range }, signal)).names ?? [];
}
