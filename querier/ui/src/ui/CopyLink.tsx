// What you see, as a link: with the range as it is, or with the very times that are on screen.
import { signal } from '@preact/signals';
import { href, type Patch } from '../address';
import { isRelative, readRange, type Range } from '../time';
import { Icon } from './icons';
import { usePopover } from './popover';
import { copy } from './toast';

/** The times of the answer on screen. */
export const shownRange = signal<Range | null>(null);
/** Those of two sides, where a page has them. */
export const shownSides = signal<Patch>({});

/** A link to what is on screen that shows the same data tomorrow. */
export function absoluteLink(from: string, until: string): string {
  const { start, end } = shownRange.value ?? readRange(from, until, Date.now()) ?? { start: 0, end: 0 };
  const times = { from: String(Math.round(start)), until: String(Math.round(end)), refresh: '', ...shownSides.value };
  return new URL(href(times), location.href).href;
}

export function CopyLink({ from, until }: { from: string; until: string }) {
  const { open, setOpen, close, box, button, onKeyDown } = usePopover();
  const moves = isRelative(until) || isRelative(from);
  const take = (to: string) => {
    close(true);
    void copy(new URL(to, location.href).href, 'Link');
  };
  return (
    <div class="popover" ref={box} onKeyDown={onKeyDown}>
      <button class="btn icon" ref={button} aria-label="Copy link" title="Copy link" aria-haspopup={moves ? 'dialog' : undefined}
        aria-expanded={moves ? open : undefined} onClick={() => (moves ? setOpen(!open) : take(href({})))}>
        <Icon name="link" />
      </button>
      {open && (
        <div class="panel narrow" role="dialog" aria-label="Copy link">
          <ul>
            <li><button onClick={() => take(absoluteLink(from, until))}><span>Absolute time link<small>Shows the same data tomorrow.</small></span></button></li>
            <li><button onClick={() => take(href({}))}><span>Relative time link<small>Shows the newest data whenever it is opened.</small></span></button></li>
          </ul>
        </div>
      )}
    </div>
  );
}
