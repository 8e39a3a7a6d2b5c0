"""What pytrec_eval needs for six metrics of each ranking."""
import pytrec_eval

from common import arguments, measure, read_work

work, = arguments('WORK')
run, judged = {}, {}
for query, (ranked, answers) in enumerate(read_work(work, 'metrics.tsv')):
    run[str(query)] = {node: 1 / rank for rank, node in enumerate(ranked.split(' '), 1)}
    judged[str(query)] = {node: 1 for node in answers.split(' ')}
wanted = {'recip_rank', 'success.1,5', 'recall.20,100', 'Rprec'}


def evaluate():
    return pytrec_eval.RelevanceEvaluator(judged, wanted).evaluate(run)


found = evaluate()
names = {'mrr': 'recip_rank', 'hit@1': 'success_1', 'hit@5': 'success_5', 'recall@20': 'recall_20',
         'recall@100': 'recall_100', 'rprecision': 'Rprec'}
means = {name: sum(values[theirs] for values in found.values()) / len(found)
         for name, theirs in names.items()}
measure('metrics', len(run), evaluate, **means)
