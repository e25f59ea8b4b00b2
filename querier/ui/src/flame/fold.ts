// The same graph with fewer frames. Repeats: a run of frames that follows itself on a stack (`fib fib`, `a b a b`) becomes
// one run, so that recursion takes the room of one call. Runtime: frames of the runtime and the kernel are left out, and
// what they have for themselves is their nearest caller's that is shown.
// Every stack keeps its value, and without repeats its functions and the last of them too: total and self of every function stay.
import { ROOT, weights, type Flame } from './model';
import { origin } from './names';
import { add, childOf, layOut, makeNode, walk, type Node } from './stacks';

export interface Folds { repeats: boolean; runtime: boolean }

/** Longer runs are not looked for: their cost grows with the length, and nobody sees them. */
const LONGEST_RUN = 32;
const HIDDEN = new Set<string>(['runtime', 'kernel']);

/** The same way up from two frames, so many steps. */
function alike(a: Node, b: Node, steps: number): boolean {
  let p = a, q = b;
  for (let n = 0; n < steps; n++, p = p.parent!, q = q.parent!) if (q.parent === null || p.name !== q.name) return false;
  return true;
}

/** How long the run is that a function below `p` would complete for the second time; 0 if it does not. */
function runOf(p: Node, name: number): number {
  let q = p;
  for (let k = 1; k <= LONGEST_RUN && q.parent !== null; k++, q = q.parent) {
    if (q.name === name && alike(p, q.parent, k - 1)) return k;
  }
  return 0;
}

/** Adds to how many frames of the stack at hand are in the last `n` frames from here up. */
function count(from: Node, n: number, by: number): void {
  for (let i = 0, node = from; i < n; i++, node = node.parent!) {
    node.open += by;
    node.most = Math.max(node.most, node.open);
  }
}

export function fold(f: Flame, { repeats, runtime }: Folds): Flame {
  const hidden = Uint8Array.from(f.names, (n) => (runtime && HIDDEN.has(origin(n).kind) ? 1 : 0));
  const root = makeNode(f.name[ROOT]), path: Node[] = [], runs: number[] = [], nodes: Node[] = [root];
  const enter = (i: number) => {
    const p = path[path.length - 1] ?? root, skip = i === ROOT || hidden[f.name[i]] === 1;
    const run = !skip && repeats ? runOf(p, f.name[i]) : 0;
    let node = p;
    if (run > 0) {
      for (let k = 1; k < run; k++) node = node.parent!;
      count(p, run - 1, -1);
      count(node, run, 1);
    } else if (!skip) {
      node = childOf(p, f.name[i]);
      if (node.parent === null) {
        node.parent = p;
        nodes.push(node);
      }
      count(node, 1, 1);
    }
    path.push(node);
    runs.push(skip ? -1 : run);
    add(node, f, i, true);
    // The time of its children is counted with the children.
    for (let c = f.firstChild[i], end = c + f.children[i]; c < end; c++) {
      node.total -= f.total[c];
      if (f.right) node.rightTotal -= f.right.total[c];
    }
  };
  walk(f, ROOT, enter, () => {
    const node = path.pop()!, run = runs.pop()!;
    if (run === 0) count(node, 1, -1);
    if (run <= 0) return;
    count(node, run, -1);
    count(path[path.length - 1], run - 1, 1);
  });
  const [left, right] = weights(f.total[ROOT], f.right ? f.right.total[ROOT] : 0);
  for (let k = nodes.length - 1; k >= 0; k--) {
    const node = nodes[k], p = node.parent;
    node.w = node.total * left + node.rightTotal * right;
    if (p === null) continue;
    p.total += node.total;
    p.rightTotal += node.rightTotal;
    if (node.w === 0) p.children!.delete(node.name); // only the way to a run that was folded
  }
  const name = (n: Node) => f.names[n.name];
  return layOut(root, f, (a, b) => (name(a) < name(b) ? -1 : 1));
}
