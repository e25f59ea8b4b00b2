// The time range: a list of ranges that end now, and two fields for any other, which do what dragging a timeline does.
import { useState } from 'preact/hooks';
import { address, go } from '../address';
import { fromField, PRESETS, rangeText, readRange, toField, utc, zoneName } from '../time';
import { Icon } from './icons';
import { usePopover } from './popover';

export function RangePicker({ from, until }: { from: string; until: string }) {
  const { open, setOpen, close, box, button, onKeyDown } = usePopover();
  const range = readRange(from, until, Date.now());
  const choose = (newFrom: string, newUntil: string) => {
    go({ from: newFrom, until: newUntil });
    close(true);
  };
  return (
    <div class="popover" ref={box} onKeyDown={onKeyDown}>
      <button class="btn" ref={button} aria-haspopup="dialog" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="clock" /><span class="cut">{range ? rangeText(from, until, range) : 'Time range'}</span>
      </button>
      {open && (
        <div class="panel" role="dialog" aria-label="Time range">
          <ul>
            {PRESETS.map((p) => {
              const current = p.from === from && until === 'now';
              return (
                <li key={p.from}>
                  <button aria-current={current ? 'true' : undefined} onClick={() => choose(p.from, 'now')}>
                    {p.text}{current && <Icon name="check" />}
                  </button>
                </li>
              );
            })}
          </ul>
          <Fixed key={String(utc.value)} start={range?.start ?? Date.now() - 3600e3} end={range?.end ?? Date.now()} choose={choose} />
        </div>
      )}
    </div>
  );
}

interface FixedProps { start: number; end: number; choose: (from: string, until: string) => void }

function Fixed({ start, end, choose }: FixedProps) {
  const [a, setA] = useState(toField(start)), [b, setB] = useState(toField(end)), [wrong, setWrong] = useState('');
  const submit = (e: Event) => {
    e.preventDefault();
    const from = fromField(a), until = fromField(b);
    if (from === null || until === null) setWrong('Both times are needed.');
    else if (from >= until) setWrong('The start has to be before the end.');
    else choose(String(from), String(until));
  };
  const zone = zoneName(end);
  return (
    <form onSubmit={submit} noValidate>
      <h2>Fixed range{zone && <span class="dim"> in {zone}</span>}</h2>
      <label>From<input type="datetime-local" step="1" value={a} onInput={(e) => setA(e.currentTarget.value)} /></label>
      <label>Until<input type="datetime-local" step="1" value={b} onInput={(e) => setB(e.currentTarget.value)} /></label>
      <p class="wrong" role="alert">{wrong}</p>
      <label class="check">
        <input type="checkbox" checked={utc.value} onChange={() => go({ tz: address.value.tz === 'UTC' ? '' : 'UTC' }, 'replace')} />
        All times in UTC
      </label>
      <button class="btn primary" type="submit">Apply</button>
    </form>
  );
}
