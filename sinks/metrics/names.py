"""The names of all metrics and recorded series, as queries use them.

Metrics are registered, rules and dashboards are written, and the docs are generated from these constants. A counter
has its `_total` here, a histogram or summary its bare name: queries add `_bucket`, `_sum` or `_count`.
"""

# Assemblers
ASSEMBLER_SPANS = "streamjury_assembler_spans_total"
ASSEMBLER_TRACES = "streamjury_assembler_traces_total"
ASSEMBLER_OPEN_TRACES = "streamjury_assembler_open_traces"

# Samplers
SAMPLING = "streamjury_sampling_total"

# Samplers, workers and monitors
RECORDS = "streamjury_records_total"
CRITICAL_NOTICES = "streamjury_critical_notices_total"
ID_CONFLICTS = "streamjury_id_conflicts_total"
IN_FLIGHT = "streamjury_in_flight"
PARKED = "streamjury_parked"
LAG = "streamjury_lag"
JUDGE_PAUSED = "streamjury_judge_paused"
EVALUATOR_INFO = "streamjury_evaluator_info"
JUDGE_VERDICTS = "streamjury_judge_verdicts_total"
JUDGE_SAMPLES = "streamjury_judge_samples_total"
JUDGE_TOKENS = "streamjury_judge_tokens_total"
JUDGE_COST_USD = "streamjury_judge_cost_usd_total"
JUDGE_CACHED = "streamjury_judge_cached_total"
JUDGE_SUSPECT_VERDICTS = "streamjury_judge_suspect_verdicts_total"
REDACTIONS = "streamjury_redactions_total"
JUDGE_REPAIRS = "streamjury_judge_repairs_total"
JUDGE_RETRIES = "streamjury_judge_retries_total"
POSITION_CHECKS = "streamjury_position_checks_total"
JUDGE_CALLS_SAVED = "streamjury_judge_calls_saved_total"
CASCADE_PATHS = "streamjury_cascade_paths_total"
DIMENSIONS_UNSCORED = "streamjury_dimensions_unscored_total"
PANEL_AGREEMENT = "streamjury_panel_agreement"
PANEL_SPREAD = "streamjury_panel_spread"
PANEL_EFFECTIVE_VOTES = "streamjury_panel_effective_votes"
JUDGE_SECONDS = "streamjury_judge_seconds"
EVALUATION_SECONDS = "streamjury_evaluation_seconds"

# Workers whose judges ask endpoints
ENDPOINT_LIMIT = "streamjury_endpoint_limit"
ENDPOINT_RATE = "streamjury_endpoint_rate"
ENDPOINT_IN_FLIGHT = "streamjury_endpoint_in_flight"
ENDPOINT_WAITING = "streamjury_endpoint_waiting"
ENDPOINT_FAILURES = "streamjury_endpoint_failures_total"

# Workers with sinks
SINK_EVALUATIONS = "streamjury_sink_evaluations_total"
SINK_QUEUE = "streamjury_sink_queue"

# Archivist
ARCHIVE_ROWS = "streamjury_archive_rows_total"
ARCHIVE_FAILURES = "streamjury_archive_failures_total"
ARCHIVE_AVAILABLE = "streamjury_archive_available"

# Workers of several processes
PROCESS_RESTARTS = "streamjury_process_restarts_total"

# Workers with budgets
BUDGET_SPENT_USD = "streamjury_budget_spent_usd"
BUDGET_LIMIT_USD = "streamjury_budget_limit_usd"
BUDGET_REFUSED_CALLS = "streamjury_budget_refused_calls_total"
BUDGET_EXCESS_USD = "streamjury_budget_excess_usd_total"

# Monitors
EVALUATIONS = "streamjury_evaluations_total"
SAFETY = "streamjury_safety_total"
DIAGNOSIS = "streamjury_diagnosis_total"
REFUSALS = "streamjury_refusals_total"
SCORE_WEIGHTED_SUM = "streamjury_score_weighted_sum_total"
SCORE_WEIGHTED_SQUARE_SUM = "streamjury_score_weighted_square_sum_total"
SCORE_WEIGHT = "streamjury_score_weight_total"
SCORE_WEIGHT_SQUARED = "streamjury_score_weight_squared_total"
SCORE_MISSING_WEIGHT = "streamjury_score_missing_weight_total"
OBJECTIVE_EVENTS = "streamjury_objective_events_total"
OBJECTIVE_GOOD_EVENTS = "streamjury_objective_good_events_total"
SCORE = "streamjury_score"
# This one and its ends, `…_low` and `…_high`.
SCORE_RECENT = "streamjury_score_recent"

# Monitors that watch for drops; the first is a family of gauges: `…_mean`, `…_low` and so on
DETECTION = "streamjury_detection"
DETECTION_RAISED = f"{DETECTION}_raised"
ALERTS = "streamjury_alerts_total"

# Monitors with canaries; the first is a family of gauges
JUDGES = "streamjury_judges"
JUDGES_CHANGED = f"{JUDGES}_changed"
CANARIES_MISSING = "streamjury_canaries_missing"

# Monitors that compare models; a family of gauges
VERSIONS = "streamjury_versions"
VERSIONS_DIFFERENCE = f"{VERSIONS}_difference"
VERSIONS_WORSE = f"{VERSIONS}_worse"

# Monitors that read labels; four families of gauges
CORRECTED = "streamjury_corrected"
CORRECTED_SCORE = f"{CORRECTED}_score"
CORRECTED_JUDGES_SCORE = f"{CORRECTED}_judges_score"
CORRECTED_LABELLED = f"{CORRECTED}_labelled"
CORRECTED_UNCORRECTED = f"{CORRECTED}_uncorrected"
FEEDBACK = "streamjury_feedback"
JUDGE_AGREEMENT = "streamjury_judge_agreement"
JUDGE_AGREEMENT_FALLEN = f"{JUDGE_AGREEMENT}_fallen"
JUDGE_AGREEMENT_SLICE = f"{JUDGE_AGREEMENT}_slice"

# Series of the recording rules; estimates and objectives add their kind and window: `…:mean1h`
SCORE_SERIES = "app_dimension:streamjury_score"
FLOOR_SERIES = "dimension:streamjury_score:floor"
OBJECTIVE_SERIES = "app:streamjury_objective"
FAILURE_RATIO = "judge:streamjury_verdicts:failure_ratio1h"
AGREEMENT_RATIO = "criterion:streamjury_panel:agreement1h"
COST_DAY = "streamjury:cost_usd:increase1d"
COST_LEFT = "streamjury:cost_budget:left_ratio"
BUDGET_LEFT = "app_window:streamjury_budget:left_ratio"
EVALUATOR_SEEN = "fingerprint:streamjury_evaluator:seen"
EVALUATOR_CHANGED = "streamjury:evaluator:changed"
RECORDS_RATE = "stage:streamjury_records:rate5m"

# Why a judge gave no usable verdict; other reasons lie in the record.
FAILURE_REASONS = ("judge_unavailable", "timeout", "invalid_output")
