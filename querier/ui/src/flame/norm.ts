// How two sides are compared. By share: what part of its side's total a function has, so that sides of any size meet;
// but what grows takes share from all the rest. Absolute: what it uses per second (of a gauge: in the mean of its
// profiles), in parts of all that the baseline uses; so only what changed itself changes.
import { points } from '../format';
import { rateOf } from '../ptype';
import { ROOT, type Flame } from './model';

/** Halves of a range may differ by a millisecond. */
const SAME = 1e-6;

export type NormKind = 'share' | 'abs';

export interface Norm {
  kind: NormKind;
  empty: boolean; // a side has nothing: nothing can be said to have changed
  left: number; // what a stored value of each side is multiplied by: the difference of the products is the change
  right: number;
  perLeft: number; // what makes a stored value an amount: cores, bytes a second, a mean
  perRight: number;
  type: string;
}

export function normOf(kind: NormKind, type: string, f: Flame, per: { left: number; right: number }): Norm {
  const l = f.total[ROOT], r = f.right?.total[ROOT] ?? 0, empty = l === 0 || r === 0, base = l * per.left;
  const [left, right] = empty ? [0, 0] : kind === 'share' ? [1 / l, 1 / r] : [per.left / base, per.right / base];
  return { kind, empty, left, right, perLeft: per.left, perRight: per.right, type };
}

export const changeBy = (n: Norm, left: number, right: number): number => right * n.right - left * n.left;

/** The difference between the amounts of the two sides, with a sign. */
export function amountChange(n: Norm, left: number, right: number): string {
  const l = left * n.perLeft, r = right * n.perRight, change = Math.abs(r - l) > Math.max(l, r) * SAME ? r - l : 0, text = rateOf(n.type).write(Math.abs(change));
  return n.empty ? '–' : change === 0 ? text : `${change > 0 ? '+' : '−'}${text}`;
}

/** The change of share in percentage points. */
export function shareChange(n: Norm, left: number, right: number, whole: { left: number; right: number }): string {
  return n.empty ? '–' : points(right / whole.right - left / whole.left);
}

/** Where the colours end: so much of the baseline's total, as an amount or in points. */
export function scaleText(n: Norm, f: Flame, end: number): string {
  return n.kind === 'share' ? `${end * 100} pp` : rateOf(n.type).write(f.total[ROOT] * n.perLeft * end);
}

/** The graph with bars as wide as the amounts of both sides together. A frame's own part is left of its children. */
export function byAmount(f: Flame, n: Norm): Flame {
  const { total, self } = f.right!, all = f.total[ROOT] * n.perLeft + total[ROOT] * n.perRight;
  const l = n.perLeft / all, r = n.perRight / all, x = new Float64Array(f.count), w = new Float64Array(f.count);
  for (let i = 0; i < f.count; i++) w[i] = f.total[i] * l + total[i] * r;
  for (let i = 0; i < f.count; i++) {
    let at = x[i] + f.self[i] * l + self[i] * r;
    for (let k = f.firstChild[i]; k < f.firstChild[i] + f.children[i]; k++) {
      x[k] = at;
      at += w[k];
    }
  }
  return { ...f, x, w };
}
