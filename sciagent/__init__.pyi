from sciagent.api.calc_and_answer_tables import calc as calc
from sciagent.api.campaign import Campaign as Campaign
from sciagent.api.campaign import LedgerView as Ledger
from sciagent.api.run_campaign_or_evaluation import evaluate as evaluate
from sciagent.verification.function_verifiers import verifier as verifier

__all__ = ["Campaign", "Ledger", "__version__", "calc", "evaluate", "verifier"]

__version__: str
