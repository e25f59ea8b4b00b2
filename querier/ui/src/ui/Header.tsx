import logo from '../logo.svg';
import { go } from '../address';
import { isRelative } from '../time';
import { Icon } from './icons';
import { RangePicker } from './RangePicker';
import { theme, toggleTheme } from './theme';

interface Props { from: string; until: string; every: string; busy: boolean; onRefresh: () => void }

export function Header({ from, until, every, busy, onRefresh }: Props) {
  const moves = isRelative(until), other = theme.value === 'dark' ? 'light' : 'dark';
  return (
    <header>
      <a class="brand" href="./" aria-label="Flametree"><img src={logo} alt="" width="24" height="24" /><span>Flametree</span></a>
      <RangePicker from={from} until={until} />
      <span class="joined">
        <button class="btn icon" aria-label="Refresh" title="Refresh" onClick={onRefresh}><Icon name="refresh" /></button>
        <select aria-label="Refresh automatically" value={moves ? every : ''} disabled={!moves}
          title={moves ? 'Refresh automatically' : 'A range that ends at a fixed time does not change'}
          onChange={(e) => go({ refresh: e.currentTarget.value }, 'replace')}>
          <option value="">Off</option>
          <option value="10s">10 s</option>
          <option value="30s">30 s</option>
        </select>
      </span>
      <button class="btn icon plain" aria-label={`Switch to the ${other} theme`} title={`Switch to the ${other} theme`}
        onClick={toggleTheme}>
        <Icon name={other === 'light' ? 'sun' : 'moon'} />
      </button>
      {busy && <div class="progress" role="progressbar" aria-label="Loading" />}
    </header>
  );
}
