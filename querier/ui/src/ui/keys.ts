// Single keys that work anywhere on the page. They are off while something is typed, while a dialog is open, and for
// whoever switches them off. What is bound is what the list of keys shows.
import { signal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';

/** `keys` are alternatives; one of two letters is typed one after the other. */
export interface Binding { keys: string[]; text: string; run: () => boolean | void }

const KEY = 'flametree-keys', SECOND_KEY_MS = 1500;

function read(): boolean {
  try {
    return localStorage.getItem(KEY) !== 'off';
  } catch {
    return true; // storage is forbidden
  }
}
export const keysOn = signal(read());
export function setKeysOn(on: boolean): void {
  keysOn.value = on;
  try {
    if (on) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, 'off');
  } catch {
    // lasts as long as the page
  }
}

const bound: Binding[][] = [];
export const bindings = (): Binding[] => bound.flat();

/** Binds as long as the component lives. `run` may answer false for "nothing to do here". */
export function useKeys(list: Binding[]): void {
  const latest = useRef(list);
  latest.current = list;
  // As soon as what the keys are about can be seen: the next thing that comes may be a key.
  useLayoutEffect(() => {
    const mine = list.map((b, i): Binding => ({ ...b, run: () => latest.current[i].run() }));
    bound.push(mine);
    return () => {
      bound.splice(bound.indexOf(mine), 1);
    };
  }, []);
}

const TYPING = 'input:not([type=checkbox]), textarea, select, [contenteditable]';
let first = '', firstAt = 0;

addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
  const target = e.target as Element, escape = e.key === 'Escape';
  if (document.querySelector('dialog[open], [role=menu], [role=dialog]')) return;
  if (!escape && (!keysOn.value || target.closest?.(TYPING))) return;
  const typed = first && e.timeStamp - firstAt < SECOND_KEY_MS ? first + e.key : e.key;
  first = '';
  const hit = bindings().findLast((b) => b.keys.includes(typed));
  if (hit) {
    if (hit.run() !== false) e.preventDefault();
  } else if (bindings().some((b) => b.keys.some((k) => k.length === 2 && k[0] === e.key))) {
    first = e.key;
    firstAt = e.timeStamp;
  }
});
