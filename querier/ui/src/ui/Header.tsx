import logo from '../logo.svg';
import { address, go, page, type Page } from '../address';
import { isRelative } from '../time';
import { CopyLink } from './CopyLink';
import { Icon } from './icons';
import { Link } from './Link';
import { busy } from './load';
import { RangePicker } from './RangePicker';
import { theme, toggleTheme } from './theme';

export const VIEWS: { to: Page; text: string; key: string }[] = [
  { to: 'services', text: 'Services', key: 'gs' },
  { to: 'types', text: 'Types', key: 'gt' },
  { to: 'flame', text: 'Flame graph', key: 'gf' },
  { to: 'explore', text: 'Labels', key: 'gl' },
  { to: 'compare', text: 'Compare', key: 'gc' },
];
const EVERY: [string, string][] = [['', 'Off'], ['10s', '10 s'], ['30s', '30 s'], ['60s', '1 min'], ['300s', '5 min']];

interface Props { onRefresh: () => void; onHelp: () => void }

export function Header({ onRefresh, onHelp }: Props) {
  const { from, until, refresh } = address.value, moves = isRelative(until), other = theme.value === 'dark' ? 'light' : 'dark';
  return (
    <header>
      <Link class="brand" to="services" label="Flametree"><img src={logo} alt="" width="24" height="24" /><span>Flametree</span></Link>
      <nav class="views" aria-label="Pages">
        {VIEWS.map((v) => <Link key={v.to} to={v.to} current={page.value === v.to}>{v.text}</Link>)}
      </nav>
      <RangePicker from={from} until={until} />
      <span class="joined">
        <button class="btn icon" aria-label="Refresh" title="Refresh" onClick={onRefresh}><Icon name="refresh" /></button>
        <select aria-label="Refresh automatically" value={moves ? refresh : ''} disabled={!moves}
          title={moves ? 'Refresh automatically' : 'A range that ends at a fixed time does not change'}
          onChange={(e) => go({ refresh: e.currentTarget.value }, 'replace')}>
          {EVERY.map(([k, text]) => <option key={k} value={k}>{text}</option>)}
          {!EVERY.some(([k]) => k === refresh) && <option value={refresh}>{refresh}</option>}
        </select>
      </span>
      <CopyLink from={from} until={until} />
      <button class="btn icon plain" aria-label={`Switch to the ${other} theme`} title={`Switch to the ${other} theme`} onClick={toggleTheme}>
        <Icon name={other === 'light' ? 'sun' : 'moon'} />
      </button>
      <button class="btn icon plain keys-button" aria-label="Keys" title="Keys (?)" onClick={onHelp}><Icon name="keys" /></button>
      {busy.value && <div class="progress" role="progressbar" aria-label="Loading" />}
    </header>
  );
}
