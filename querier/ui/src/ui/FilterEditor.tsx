// One more filter: a label, how to compare it, and a value, with what there is to choose from.
import { useState } from 'preact/hooks';
import { labelNames, labelValues } from '../api/client';
import { selector, SERVICE, splitSpans, type Matcher, type Query } from '../query';
import { Icon } from './icons';
import { useLoad } from './load';
import { usePopover } from './popover';

const OPERATORS: [Matcher['op'], string][] = [['=', 'is'], ['!=', 'is not'], ['=~', 'matches'], ['!~', 'does not match']];

interface Props { query: Query; range: () => { start: number; end: number }; add: (m: Matcher) => void; label?: string }

export function FilterEditor({ query, range, add, label = 'Filter' }: Props) {
  const pop = usePopover();
  return (
    <div class="popover" ref={pop.box} onKeyDown={pop.onKeyDown}>
      <button class="btn plain" ref={pop.button} aria-haspopup="dialog" aria-expanded={pop.open} onClick={() => pop.setOpen(!pop.open)}>
        <Icon name="plus" />{label}
      </button>
      {pop.open && <Editor query={query} range={range} add={(m) => {
        pop.close(true);
        add(m);
      }} />}
    </div>
  );
}

function Editor({ query, range, add }: Props) {
  const [name, setName] = useState(''), [op, setOp] = useState<Matcher['op']>('='), [value, setValue] = useState('');
  const of = selector([...splitSpans(query.matchers).plain, { label: '__profile_type__', op: '=', value: query.type }]);
  const names = useLoad(of, 0, (signal) => labelNames(of, range(), signal));
  const values = useLoad(name ? `${name} ${of}` : null, 0, (signal) => labelValues(name, of, range(), signal));
  const submit = (e: Event) => {
    e.preventDefault();
    if (name) add({ label: name, op, value });
  };
  const choices = (names.data ?? []).filter((n) => !n.startsWith('__') && n !== SERVICE);
  return (
    <div class="panel left" role="dialog" aria-label="Add a filter">
      <form onSubmit={submit}>
        <label>Label
          <input list="filter-names" autofocus value={name} spellcheck={false} autocomplete="off" onInput={(e) => setName(e.currentTarget.value.trim())} />
        </label>
        <datalist id="filter-names">{choices.map((n) => <option key={n} value={n} />)}</datalist>
        <label>Comparison
          <select value={op} onChange={(e) => setOp(e.currentTarget.value as Matcher['op'])}>
            {OPERATORS.map(([k, text]) => <option key={k} value={k}>{text}</option>)}
          </select>
        </label>
        <label>Value
          <input list="filter-values" value={value} spellcheck={false} autocomplete="off" onInput={(e) => setValue(e.currentTarget.value)} />
        </label>
        <datalist id="filter-values">{(values.data ?? []).map((v) => <option key={v} value={v} />)}</datalist>
        <p class="wrong" role="alert">{(names.error ?? values.error)?.message}</p>
        <button class="btn primary" type="submit" disabled={!name}>Add</button>
      </form>
    </div>
  );
}
