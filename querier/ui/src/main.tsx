import { render } from 'preact';
import './style.css';
import { App } from './App';

render(<App />, document.getElementById('app')!);
