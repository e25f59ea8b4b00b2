import { functions, merged, type Exactness, type NamedRow } from './api/client';
import type { MergeRequest } from './api/wire';
import { buildFlame, findFrame, frameKey, nameOf, pathTo, type Flame } from './flame/model';
import { selector, splitSpans, type Query } from './query';
import type { Range } from './time';

/** Frames that an answer may have if nothing else is asked. */
export const MAX_NODES = 16384;
/** No answer has more. */
export const MOST_NODES = 1048576;

export function readMaxNodes(text: string): number {
  return /^[1-9]\d{0,6}$/.test(text) ? Math.min(MOST_NODES, Number(text)) : MAX_NODES;
}

/** An answer together with its question, because it stays on screen while the next question is under way. */
export interface Answer {
  question: string;
  query: Query;
  range: Range;
  at: number; // ms
  maxNodes: number;
  flame: Flame;
  exactness: Exactness;
  path: string[]; // if only stacks that begin so are in it
  lost: boolean; // the place that the address asks for is not in this profile: all of it is shown
}

export function mergeRequest(query: Query, range: Range, maxNodes: number): MergeRequest {
  const { plain, spans } = splitSpans(query.matchers);
  return { type: query.type, selector: selector(plain), ...range, maxNodes, spans };
}

/**
 * Asks for everything, then for what lies below one frame of it, and again for what lies below one frame of that: so
 * `within`, keys of frames with dots between, names a place of any depth that the first answer may have cut off.
 */
export async function ask(question: string, query: Query, range: Range, maxNodes: number, within: string, signal: AbortSignal): Promise<Answer> {
  const request = mergeRequest(query, range, maxNodes);
  let path: string[] = [], lost = false, { graph, exactness } = await merged(request, signal), flame = buildFlame(graph);
  for (const key of within ? within.split('.') : []) {
    const frame = findFrame(flame, key);
    if (frame < 0) {
      lost = true;
      break;
    }
    path = pathTo(flame, frame).map((i) => nameOf(flame, i));
    ({ graph, exactness } = await merged({ ...request, path }, signal));
    flame = buildFlame(graph);
  }
  return { question, query, range, at: Date.now(), maxNodes, flame, exactness, path, lost };
}

/** The sums of all functions of an answer, those that its picture leaves out too. */
export const functionsOf = (a: Answer) => (signal: AbortSignal): Promise<NamedRow[]> =>
  functions({ ...mergeRequest(a.query, a.range, 0), path: a.path }, null, signal);

/** `within` for what lies below a frame of this answer. */
export const withinOf = (within: string, f: Flame, frame: number): string =>
  [...(within ? within.split('.') : []), frameKey(f, frame)].join('.');
