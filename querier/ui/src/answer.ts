import type { Exactness } from './api/client';
import type { Flame } from './flame/model';
import type { Query } from './query';
import type { Range } from './time';

/** Frames that an answer may have. */
export const MAX_NODES = 16384;

/** An answer together with its question, because it stays on screen while the next question is under way. */
export interface Answer {
  question: string;
  query: Query;
  range: Range;
  at: number; // ms
  flame: Flame;
  exactness: Exactness;
}
