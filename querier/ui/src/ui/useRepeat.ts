import { useEffect } from 'preact/hooks';

/** Asks again every so many seconds after the last answer; not while the page is hidden. 0 is never. */
export function useRepeat(seconds: number, busy: boolean, again: number, refresh: () => void): void {
  useEffect(() => {
    if (seconds === 0 || busy) return undefined;
    let due = false;
    const refreshIfSeen = () => {
      if (due && !document.hidden) refresh();
    };
    const timer = setTimeout(() => {
      due = true;
      refreshIfSeen();
    }, seconds * 1e3);
    document.addEventListener('visibilitychange', refreshIfSeen);
    return () => {
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', refreshIfSeen);
    };
  }, [seconds, busy, again]);
}
