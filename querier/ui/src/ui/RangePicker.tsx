// The time range: a list of ranges that end now, and two fields for any other, relative or fixed.
import { useState } from 'preact/hooks';
import { address, go } from '../address';
import { fromField, PRESETS, rangeText, readRange, readTime, toField, utc, zoneName } from '../time';
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
          <Typed key={String(utc.value)} from={from} until={until} choose={choose} />
        </div>
      )}
    </div>
  );
}

interface TypedProps { from: string; until: string; choose: (from: string, until: string) => void }

function Typed({ from, until, choose }: TypedProps) {
  const now = Date.now(), start = readTime(from, now) ?? now - 3600e3, end = readTime(until, now, true) ?? now;
  const [a, setA] = useState(toField(from, start)), [b, setB] = useState(toField(until, end)), [wrong, setWrong] = useState('');
  const submit = (e: Event) => {
    e.preventDefault();
    const newFrom = fromField(a), newUntil = fromField(b, true), bad = newFrom === null ? a : b;
    if (newFrom === null || newUntil === null) setWrong(bad.trim() ? `“${bad.trim()}” is not a time.` : 'Both times are needed.');
    else if (!readRange(newFrom, newUntil, Date.now())) setWrong('The start has to be before the end.');
    else choose(newFrom, newUntil);
  };
  const zone = zoneName(end), look = { type: 'text', spellcheck: false, autocomplete: 'off', 'aria-describedby': 'times' } as const;
  return (
    <form onSubmit={submit} noValidate>
      <h2>Other range{zone && <span class="dim"> in {zone}</span>}</h2>
      <label>From<input {...look} value={a} onInput={(e) => setA(e.currentTarget.value)} /></label>
      <label>Until<input {...look} value={b} onInput={(e) => setB(e.currentTarget.value)} /></label>
      <p class="dim" id="times">now-90m, 2026-11-21 09:00, 2026-11-21T09:00Z</p>
      <p class="wrong" role="alert">{wrong}</p>
      <label class="check">
        <input type="checkbox" checked={utc.value} onChange={() => go({ tz: address.value.tz === 'UTC' ? '' : 'UTC' }, 'replace')} />
        All times in UTC
      </label>
      <button class="btn primary" type="submit">Apply</button>
    </form>
  );
}
