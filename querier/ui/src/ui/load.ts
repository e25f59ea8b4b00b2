// One request that follows its inputs. The last answer stays while the next one is under way, and an answer that was
// overtaken is dropped. Aborting a request closes its connection, which ends the work on the server.
import { computed, signal } from '@preact/signals';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

export interface Loaded<T> {
  data: T | null; // the last answer, perhaps to an older question
  stale: boolean; // the data answer an older question
  error: Error | null; // of the last question, if it failed
  busy: boolean;
  cancelled: boolean; // somebody stopped the last question
}

const pending = signal(0);
/** Is any request of the page under way? */
export const busy = computed(() => pending.value > 0);

/** How to cancel each request that is under way. */
const running = new Set<() => void>();
export const cancelAll = (): void => [...running].forEach((cancel) => cancel());

type State<T> = Omit<Loaded<T>, 'stale'> & { of: string | null };

/** `question` is null while there is nothing to ask. A change of `again` asks the same question once more. */
export function useLoad<T>(question: string | null, again: number, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<State<T>>({ data: null, of: null, error: null, busy: false, cancelled: false });
  const latest = useRef(load);
  latest.current = load;
  // With the drawing that has the new question, so that there is no moment in which nothing seems to be under way.
  useLayoutEffect(() => {
    if (question === null) {
      setState((s) => ({ ...s, error: null, busy: false, cancelled: false }));
      return undefined;
    }
    const control = new AbortController();
    let counted = true;
    const settle = () => {
      if (counted) pending.value--;
      counted = false;
      running.delete(cancel);
    };
    const cancel = () => {
      control.abort();
      settle();
      setState((s) => ({ ...s, error: null, busy: false, cancelled: true }));
    };
    running.add(cancel);
    pending.value++;
    setState((s) => ({ ...s, busy: true, cancelled: false }));
    latest.current(control.signal).then(
      (data) => control.signal.aborted || setState({ data, of: question, error: null, busy: false, cancelled: false }),
      (error: Error) => control.signal.aborted || setState((s) => ({ ...s, error, busy: false })),
    ).finally(settle);
    return () => {
      control.abort();
      settle();
    };
  }, [question, again]);
  return { ...state, stale: state.data !== null && state.of !== question };
}
