// The page that `agent report` writes: the view of a run, or a trained model, with its record in the
// page. Its state is in the fragment of its address.

import './style.css';
import { render } from 'lit';

import './run';
import { here } from './place';
import { recordedModel, recordedRun } from './record';
import { trained } from './trained';

const main = document.querySelector('main')!;
if (recordedModel) {
  document.title = `Model ${recordedModel.name}`;
  render(trained(recordedModel), main);
} else if (recordedRun) {
  const { id, dataset } = recordedRun.run;
  document.title = `Run ${id} on ${dataset}`;
  const view = document.createElement('run-view');
  const show = () => {
    const { params } = here();
    params.set('id', id);
    Object.assign(view, { params, served: { bases: [], bundles: [] } });
  };
  show();
  window.addEventListener('hashchange', show);
  main.replaceChildren(view);
}
