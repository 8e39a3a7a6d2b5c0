"""What pytrec_eval needs for eight metrics of each ranking."""
import pytrec_eval

from common import arguments, measure, read_work

work, = arguments('WORK')
run, judged = {}, {}
for query, (ranked, answers) in enumerate(read_work(work, 'metrics.tsv')):
    run[str(query)] = {node: 1 / rank for rank, node in enumerate(ranked.split(' '), 1)}
    judged[str(query)] = {node: 1 for node in answers.split(' ')}
wanted = {'recip_rank', 'success.1,5', 'recall.20,100', 'map_cut.100', 'ndcg_cut.10', 'P.10'}


def evaluate():
    return pytrec_eval.RelevanceEvaluator(judged, wanted).evaluate(run)


found = evaluate()
for query, values in found.items():
    # STaRK divides by the answers found, TREC by all answers.
    within = values['recall_100'] * len(judged[query])
    values['map_cut_100'] *= len(judged[query]) / within if within else 0
names = {'mrr': 'recip_rank', 'hit@1': 'success_1', 'hit@5': 'success_5', 'recall@20': 'recall_20',
         'recall@100': 'recall_100', 'map@100': 'map_cut_100', 'ndcg@10': 'ndcg_cut_10',
         'precision@10': 'P_10'}
means = {name: sum(values[theirs] for values in found.values()) / len(found)
         for name, theirs in names.items()}
measure('metrics', len(run), evaluate, **means)
