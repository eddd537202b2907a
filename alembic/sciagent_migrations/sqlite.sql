BEGIN TRANSACTION;
CREATE TABLE access (
	id INTEGER NOT NULL, 
	person_id INTEGER NOT NULL, 
	kind VARCHAR(20) NOT NULL, 
	secret_hash VARCHAR(64) NOT NULL, 
	csrf VARCHAR(64), 
	label VARCHAR(200) NOT NULL, 
	scopes JSON NOT NULL, 
	campaign_id INTEGER, 
	address VARCHAR(64), 
	created_at DATETIME NOT NULL, 
	expires_at DATETIME NOT NULL, 
	seen_at DATETIME, 
	revoked_at DATETIME, 
	locked_at DATETIME, 
	wrong_pins INTEGER NOT NULL, 
	CONSTRAINT pk_access PRIMARY KEY (id), 
	CONSTRAINT uq_access_secret_hash UNIQUE (secret_hash), 
	CONSTRAINT fk_access_person_id FOREIGN KEY(person_id) REFERENCES person (id), 
	CONSTRAINT fk_access_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id)
);
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE artifact (
	id INTEGER NOT NULL, 
	evidence_id INTEGER NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	size INTEGER NOT NULL, 
	media_type VARCHAR(100) NOT NULL, 
	CONSTRAINT pk_artifact PRIMARY KEY (id), 
	CONSTRAINT fk_artifact_evidence_id FOREIGN KEY(evidence_id) REFERENCES evidence (id)
);
CREATE TABLE artifact_removal (
	id INTEGER NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	size INTEGER NOT NULL, 
	who VARCHAR(200) NOT NULL, 
	why TEXT NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_artifact_removal PRIMARY KEY (id)
);
CREATE TABLE attempt (
	id INTEGER NOT NULL, 
	campaign_id INTEGER, 
	rung_id INTEGER, 
	job_id INTEGER, 
	fence INTEGER NOT NULL, 
	n_candidates INTEGER NOT NULL, 
	owner VARCHAR(200) NOT NULL, 
	state VARCHAR(20) NOT NULL, 
	outcome VARCHAR(20), 
	reason VARCHAR(60), 
	detail TEXT, 
	cost JSON NOT NULL, 
	wall_seconds FLOAT, 
	started_at DATETIME NOT NULL, 
	heartbeat_at DATETIME NOT NULL, 
	ended_at DATETIME, 
	holds JSON, 
	watermark INTEGER, 
	turn_id INTEGER, 
	cost_at_loss JSON, 
	late_watermark INTEGER, 
	together INTEGER, 
	progress JSON, 
	progress_at DATETIME, 
	CONSTRAINT pk_attempt PRIMARY KEY (id), 
	CONSTRAINT fk_attempt_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id), 
	CONSTRAINT fk_attempt_rung_id FOREIGN KEY(rung_id) REFERENCES rung (id), 
	CONSTRAINT fk_attempt_job_id FOREIGN KEY(job_id) REFERENCES job (id), 
	CONSTRAINT fk_attempt_turn_id FOREIGN KEY(turn_id) REFERENCES turn (id)
);
CREATE TABLE audit_entry (
	id INTEGER NOT NULL, 
	at DATETIME NOT NULL, 
	person_id INTEGER, 
	access_id INTEGER, 
	who VARCHAR(200) NOT NULL, 
	what VARCHAR(40) NOT NULL, 
	object VARCHAR(40) NOT NULL, 
	object_id INTEGER, 
	campaign_id INTEGER, 
	payload JSON NOT NULL, 
	previous_hash VARCHAR(64) NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	CONSTRAINT pk_audit_entry PRIMARY KEY (id), 
	CONSTRAINT uq_audit_entry_hash UNIQUE (hash), 
	CONSTRAINT ck_audit_entry_id CHECK (id > 0), 
	CONSTRAINT fk_audit_entry_person_id FOREIGN KEY(person_id) REFERENCES person (id), 
	CONSTRAINT fk_audit_entry_access_id FOREIGN KEY(access_id) REFERENCES access (id), 
	CONSTRAINT fk_audit_entry_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id)
);
CREATE TABLE calibration (
	id INTEGER NOT NULL, 
	campaign_id INTEGER NOT NULL, 
	rung_id INTEGER NOT NULL, 
	property VARCHAR(100) NOT NULL, 
	kind VARCHAR(20) NOT NULL, 
	measured_level TEXT NOT NULL, 
	n INTEGER NOT NULL, 
	slope DOUBLE NOT NULL, 
	intercept DOUBLE NOT NULL, 
	mean_absolute_error DOUBLE NOT NULL, 
	root_mean_square_error DOUBLE NOT NULL, 
	error_without DOUBLE NOT NULL, 
	is_used BOOLEAN DEFAULT 1 NOT NULL, 
	center DOUBLE NOT NULL, 
	squared_deviations DOUBLE NOT NULL, 
	charges VARCHAR(10) NOT NULL, 
	watermark INTEGER NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_calibration PRIMARY KEY (id), 
	CONSTRAINT fk_calibration_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id), 
	CONSTRAINT fk_calibration_rung_id FOREIGN KEY(rung_id) REFERENCES rung (id)
);
CREATE TABLE campaign (
	id INTEGER NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	spec JSON NOT NULL, 
	spec_hash VARCHAR(64) NOT NULL, 
	identity_hash VARCHAR(64) NOT NULL, 
	base TEXT NOT NULL, 
	source TEXT NOT NULL, 
	state VARCHAR(20) NOT NULL, 
	stop_reason TEXT, 
	driver VARCHAR(200), 
	driver_fence INTEGER NOT NULL, 
	driver_until DATETIME, 
	wall_seconds FLOAT NOT NULL, 
	driver_core_seconds FLOAT NOT NULL, 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, 
	hosted BOOLEAN DEFAULT 0 NOT NULL, 
	wakes_at DATETIME, 
	CONSTRAINT pk_campaign PRIMARY KEY (id), 
	CONSTRAINT uq_campaign_name UNIQUE (name)
);
CREATE TABLE campaign_amendment (
	id INTEGER NOT NULL, 
	campaign_id INTEGER NOT NULL, 
	path VARCHAR(200) NOT NULL, 
	who VARCHAR(200) NOT NULL, 
	old JSON, 
	new JSON, 
	why TEXT NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_campaign_amendment PRIMARY KEY (id), 
	CONSTRAINT fk_campaign_amendment_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id)
);
CREATE TABLE campaign_candidate (
	campaign_id INTEGER NOT NULL, 
	candidate_id INTEGER NOT NULL, 
	seq INTEGER NOT NULL, 
	standing VARCHAR(20) NOT NULL, 
	position INTEGER NOT NULL, 
	depth INTEGER NOT NULL, 
	verdict VARCHAR(20), 
	hit_tier VARCHAR(20), 
	reason VARCHAR(60), 
	detail TEXT, 
	utility FLOAT, 
	p_hit FLOAT, 
	expected_utility FLOAT, 
	margin FLOAT, 
	chance INTEGER, 
	basis VARCHAR(10), 
	is_hit BOOLEAN NOT NULL, 
	in_seeds BOOLEAN NOT NULL, 
	proposal_id INTEGER, 
	updated_at DATETIME NOT NULL, 
	CONSTRAINT pk_campaign_candidate PRIMARY KEY (campaign_id, candidate_id), 
	CONSTRAINT uq_campaign_candidate_campaign_id_seq UNIQUE (campaign_id, seq), 
	CONSTRAINT fk_campaign_candidate_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id), 
	CONSTRAINT fk_campaign_candidate_candidate_id FOREIGN KEY(candidate_id) REFERENCES candidate (id), 
	CONSTRAINT fk_campaign_candidate_proposal_id FOREIGN KEY(proposal_id) REFERENCES proposal (id)
);
CREATE TABLE campaign_law (
	id INTEGER NOT NULL, 
	campaign_id INTEGER NOT NULL, 
	named VARCHAR(140) NOT NULL, 
	law_entry_id INTEGER NOT NULL, 
	CONSTRAINT pk_campaign_law PRIMARY KEY (id), 
	CONSTRAINT uq_campaign_law_campaign_id_named UNIQUE (campaign_id, named), 
	CONSTRAINT fk_campaign_law_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id), 
	CONSTRAINT fk_campaign_law_law_entry_id FOREIGN KEY(law_entry_id) REFERENCES law_entry (id)
);
CREATE TABLE campaign_policy (
	id INTEGER NOT NULL, 
	campaign_id INTEGER NOT NULL, 
	proposer VARCHAR(64) NOT NULL, 
	policy_id INTEGER NOT NULL, 
	named VARCHAR(200) NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_campaign_policy PRIMARY KEY (id), 
	CONSTRAINT uq_campaign_policy_campaign_id_proposer UNIQUE (campaign_id, proposer), 
	CONSTRAINT fk_campaign_policy_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id), 
	CONSTRAINT fk_campaign_policy_policy_id FOREIGN KEY(policy_id) REFERENCES policy (id)
);
CREATE TABLE candidate (
	id INTEGER NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	text TEXT NOT NULL, 
	identity TEXT NOT NULL, 
	formula TEXT NOT NULL, 
	inchikey VARCHAR(27), 
	charge INTEGER NOT NULL, 
	multiplicity INTEGER NOT NULL, 
	n_atoms INTEGER NOT NULL, 
	payload JSON NOT NULL, 
	kind VARCHAR(20) NOT NULL, 
	standardiser VARCHAR(20) NOT NULL, 
	library VARCHAR(60) NOT NULL, 
	created_at DATETIME NOT NULL, 
	scaffold_hash VARCHAR(64), 
	CONSTRAINT pk_candidate PRIMARY KEY (id), 
	CONSTRAINT uq_candidate_key UNIQUE ("key")
);
CREATE TABLE candidate_alias (
	id INTEGER NOT NULL, 
	candidate_id INTEGER NOT NULL, 
	notation VARCHAR(20) NOT NULL, 
	text TEXT NOT NULL, 
	text_hash VARCHAR(64) NOT NULL, 
	CONSTRAINT pk_candidate_alias PRIMARY KEY (id), 
	CONSTRAINT uq_candidate_alias_text_hash_notation UNIQUE (text_hash, notation), 
	CONSTRAINT fk_candidate_alias_candidate_id FOREIGN KEY(candidate_id) REFERENCES candidate (id)
);
CREATE TABLE candidate_name (
	id INTEGER NOT NULL, 
	candidate_id INTEGER NOT NULL, 
	campaign_id INTEGER, 
	row_hash VARCHAR(16) NOT NULL, 
	field VARCHAR(60) NOT NULL, 
	text VARCHAR(200) NOT NULL, 
	CONSTRAINT pk_candidate_name PRIMARY KEY (id), 
	CONSTRAINT uq_candidate_name_candidate_id_campaign_id_row_hash_field UNIQUE (candidate_id, campaign_id, row_hash, field), 
	CONSTRAINT fk_candidate_name_candidate_id FOREIGN KEY(candidate_id) REFERENCES candidate (id), 
	CONSTRAINT fk_candidate_name_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id)
);
CREATE TABLE candidate_parent (
	id INTEGER NOT NULL, 
	candidate_id INTEGER NOT NULL, 
	parent_id INTEGER NOT NULL, 
	proposal_id INTEGER NOT NULL, 
	operation VARCHAR(100), 
	CONSTRAINT pk_candidate_parent PRIMARY KEY (id), 
	CONSTRAINT fk_candidate_parent_candidate_id FOREIGN KEY(candidate_id) REFERENCES candidate (id), 
	CONSTRAINT fk_candidate_parent_parent_id FOREIGN KEY(parent_id) REFERENCES candidate (id), 
	CONSTRAINT fk_candidate_parent_proposal_id FOREIGN KEY(proposal_id) REFERENCES proposal (id)
);
CREATE TABLE cost_observation (
	id INTEGER NOT NULL, 
	verifier VARCHAR(100) NOT NULL, 
	verifier_version VARCHAR(40) NOT NULL, 
	resource VARCHAR(40) NOT NULL, 
	settings_hash VARCHAR(64) NOT NULL, 
	candidate_id INTEGER NOT NULL, 
	attempt_id INTEGER NOT NULL, 
	declared FLOAT NOT NULL, 
	amount FLOAT NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_cost_observation PRIMARY KEY (id), 
	CONSTRAINT fk_cost_observation_candidate_id FOREIGN KEY(candidate_id) REFERENCES candidate (id), 
	CONSTRAINT fk_cost_observation_attempt_id FOREIGN KEY(attempt_id) REFERENCES attempt (id)
);
CREATE TABLE decision (
	id INTEGER NOT NULL, 
	campaign_id INTEGER NOT NULL, 
	candidate_id INTEGER NOT NULL, 
	rung_id INTEGER, 
	evidence_id INTEGER, 
	action VARCHAR(20) NOT NULL, 
	chooser VARCHAR(200) NOT NULL, 
	why TEXT, 
	law_version VARCHAR(64), 
	watermark INTEGER NOT NULL, 
	price JSON, 
	"index" FLOAT, 
	propensity FLOAT NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_decision PRIMARY KEY (id), 
	CONSTRAINT fk_decision_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id), 
	CONSTRAINT fk_decision_candidate_id FOREIGN KEY(candidate_id) REFERENCES candidate (id), 
	CONSTRAINT fk_decision_rung_id FOREIGN KEY(rung_id) REFERENCES rung (id), 
	CONSTRAINT fk_decision_evidence_id FOREIGN KEY(evidence_id) REFERENCES evidence (id)
);
CREATE TABLE directive (
	id INTEGER NOT NULL, 
	campaign_id INTEGER NOT NULL, 
	candidate_id INTEGER, 
	rung_id INTEGER, 
	verb VARCHAR(20) NOT NULL, 
	payload JSON NOT NULL, 
	who VARCHAR(200) NOT NULL, 
	why TEXT NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_directive PRIMARY KEY (id), 
	CONSTRAINT fk_directive_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id), 
	CONSTRAINT fk_directive_candidate_id FOREIGN KEY(candidate_id) REFERENCES candidate (id), 
	CONSTRAINT fk_directive_rung_id FOREIGN KEY(rung_id) REFERENCES rung (id)
);
CREATE TABLE evaluation (
	id INTEGER NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	spec JSON NOT NULL, 
	answer JSON NOT NULL, 
	who VARCHAR(200) NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_evaluation PRIMARY KEY (id), 
	CONSTRAINT uq_evaluation_hash UNIQUE (hash)
);
CREATE TABLE evaluation_arm (
	id INTEGER NOT NULL, 
	evaluation_id INTEGER NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	policy_id INTEGER NOT NULL, 
	CONSTRAINT pk_evaluation_arm PRIMARY KEY (id), 
	CONSTRAINT uq_evaluation_arm_evaluation_id_name UNIQUE (evaluation_id, name), 
	CONSTRAINT fk_evaluation_arm_evaluation_id FOREIGN KEY(evaluation_id) REFERENCES evaluation (id), 
	CONSTRAINT fk_evaluation_arm_policy_id FOREIGN KEY(policy_id) REFERENCES policy (id)
);
CREATE TABLE event (
	id INTEGER NOT NULL, 
	campaign_id INTEGER, 
	kind VARCHAR(40) NOT NULL, 
	payload JSON NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_event PRIMARY KEY (id), 
	CONSTRAINT fk_event_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id)
);
CREATE TABLE evidence (
	id INTEGER NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	candidate_id INTEGER NOT NULL, 
	proposal_id INTEGER, 
	attempt_id INTEGER, 
	supersedes_id INTEGER, 
	verifier VARCHAR(100) NOT NULL, 
	verifier_version VARCHAR(40) NOT NULL, 
	settings_hash VARCHAR(64) NOT NULL, 
	inputs_hash VARCHAR(64) NOT NULL, 
	replicate INTEGER NOT NULL, 
	revision INTEGER NOT NULL, 
	outcome VARCHAR(20) NOT NULL, 
	reason VARCHAR(60), 
	detail TEXT, 
	why TEXT, 
	reusable BOOLEAN NOT NULL, 
	diagnostics JSON NOT NULL, 
	versions JSON NOT NULL, 
	unobtained JSON, 
	source VARCHAR(200) NOT NULL, 
	who VARCHAR(200) NOT NULL, 
	watermark INTEGER NOT NULL, 
	at DATETIME NOT NULL, 
	seal VARCHAR(80), 
	CONSTRAINT pk_evidence PRIMARY KEY (id), 
	CONSTRAINT uq_evidence_key UNIQUE ("key"), 
	CONSTRAINT uq_evidence_supersedes_id UNIQUE (supersedes_id), 
	CONSTRAINT uq_evidence_watermark UNIQUE (watermark), 
	CONSTRAINT ck_evidence_watermark CHECK (watermark > 0), 
	CONSTRAINT fk_evidence_candidate_id FOREIGN KEY(candidate_id) REFERENCES candidate (id), 
	CONSTRAINT fk_evidence_proposal_id FOREIGN KEY(proposal_id) REFERENCES proposal (id), 
	CONSTRAINT fk_evidence_attempt_id FOREIGN KEY(attempt_id) REFERENCES attempt (id), 
	CONSTRAINT fk_evidence_supersedes_id FOREIGN KEY(supersedes_id) REFERENCES evidence (id)
);
CREATE TABLE job (
	id INTEGER NOT NULL, 
	campaign_id INTEGER NOT NULL, 
	rung_id INTEGER NOT NULL, 
	candidate_id INTEGER NOT NULL, 
	evidence_key VARCHAR(64) NOT NULL, 
	state VARCHAR(20) NOT NULL, 
	outcome VARCHAR(20), 
	priority FLOAT NOT NULL, 
	replicate INTEGER NOT NULL, 
	attempts INTEGER NOT NULL, 
	kills INTEGER NOT NULL, 
	fence INTEGER NOT NULL, 
	losses INTEGER DEFAULT '0' NOT NULL, 
	lease_owner VARCHAR(200), 
	lease_until DATETIME, 
	cancel_requested BOOLEAN NOT NULL, 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, 
	queue VARCHAR(60), 
	external VARCHAR(100), 
	seconds FLOAT, 
	memory_mb INTEGER, 
	needs VARCHAR(400), 
	CONSTRAINT pk_job PRIMARY KEY (id), 
	CONSTRAINT uq_job_campaign_id_rung_id_candidate_id_replicate UNIQUE (campaign_id, rung_id, candidate_id, replicate), 
	CONSTRAINT fk_job_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id), 
	CONSTRAINT fk_job_rung_id FOREIGN KEY(rung_id) REFERENCES rung (id), 
	CONSTRAINT fk_job_candidate_id FOREIGN KEY(candidate_id) REFERENCES candidate (id)
);
CREATE TABLE lab_task (
	job_id INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	plate VARCHAR(60), 
	well VARCHAR(10), 
	due_at DATETIME, 
	approved_at DATETIME, 
	assigned_to INTEGER, 
	approved_by VARCHAR(200), 
	sample_id INTEGER, 
	in_review_id INTEGER, 
	sent_back_id INTEGER, 
	open_quantities TEXT, 
	note TEXT, 
	CONSTRAINT pk_lab_task PRIMARY KEY (job_id), 
	CONSTRAINT fk_lab_task_job_id FOREIGN KEY(job_id) REFERENCES job (id), 
	CONSTRAINT fk_lab_task_assigned_to FOREIGN KEY(assigned_to) REFERENCES person (id), 
	CONSTRAINT fk_lab_task_sample_id FOREIGN KEY(sample_id) REFERENCES sample (id), 
	CONSTRAINT fk_lab_task_in_review_id FOREIGN KEY(in_review_id) REFERENCES submission (id), 
	CONSTRAINT fk_lab_task_sent_back_id FOREIGN KEY(sent_back_id) REFERENCES submission (id)
);
CREATE TABLE law (
	id INTEGER NOT NULL, 
	campaign_id INTEGER NOT NULL, 
	version VARCHAR(64) NOT NULL, 
	watermark INTEGER NOT NULL, 
	state JSON NOT NULL, 
	at DATETIME NOT NULL, 
	purpose VARCHAR(20) DEFAULT 'scheduler' NOT NULL, 
	CONSTRAINT pk_law PRIMARY KEY (id), 
	CONSTRAINT fk_law_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id)
);
CREATE TABLE law_entry (
	id INTEGER NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	kind VARCHAR(20) NOT NULL, 
	parent_hash VARCHAR(64), 
	summary JSON NOT NULL, 
	content TEXT NOT NULL, 
	who VARCHAR(200) NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_law_entry PRIMARY KEY (id), 
	CONSTRAINT uq_law_entry_name_hash UNIQUE (name, hash)
);
CREATE TABLE level (
	id INTEGER NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	label TEXT NOT NULL, 
	spec JSON NOT NULL, 
	CONSTRAINT pk_level PRIMARY KEY (id), 
	CONSTRAINT uq_level_hash UNIQUE (hash)
);
CREATE TABLE likeness (
	id INTEGER NOT NULL, 
	campaign_id INTEGER NOT NULL, 
	candidate_id INTEGER NOT NULL, 
	of_id INTEGER NOT NULL, 
	rung_id INTEGER NOT NULL, 
	evidence_id INTEGER NOT NULL, 
	of_evidence_id INTEGER NOT NULL, 
	distance DOUBLE, 
	excess DOUBLE, 
	watermark INTEGER NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_likeness PRIMARY KEY (id), 
	CONSTRAINT uq_likeness_campaign_id_candidate_id UNIQUE (campaign_id, candidate_id), 
	CONSTRAINT fk_likeness_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id), 
	CONSTRAINT fk_likeness_candidate_id FOREIGN KEY(candidate_id) REFERENCES candidate (id), 
	CONSTRAINT fk_likeness_of_id FOREIGN KEY(of_id) REFERENCES candidate (id), 
	CONSTRAINT fk_likeness_rung_id FOREIGN KEY(rung_id) REFERENCES rung (id), 
	CONSTRAINT fk_likeness_evidence_id FOREIGN KEY(evidence_id) REFERENCES evidence (id), 
	CONSTRAINT fk_likeness_of_evidence_id FOREIGN KEY(of_evidence_id) REFERENCES evidence (id)
);
CREATE TABLE membership (
	id INTEGER NOT NULL, 
	person_id INTEGER NOT NULL, 
	campaign_id INTEGER, 
	role VARCHAR(20) NOT NULL, 
	CONSTRAINT pk_membership PRIMARY KEY (id), 
	CONSTRAINT uq_membership_person_id_campaign_id UNIQUE (person_id, campaign_id), 
	CONSTRAINT fk_membership_person_id FOREIGN KEY(person_id) REFERENCES person (id), 
	CONSTRAINT fk_membership_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id)
);
CREATE TABLE person (
	id INTEGER NOT NULL, 
	login VARCHAR(64) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	email VARCHAR(320), 
	password_hash TEXT, 
	pin_hash TEXT, 
	is_admin BOOLEAN NOT NULL, 
	disabled_at DATETIME, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_person PRIMARY KEY (id), 
	CONSTRAINT uq_person_login UNIQUE (login)
);
CREATE TABLE policy (
	id INTEGER NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	base_sha256 VARCHAR(64), 
	adapter_sha256 VARCHAR(64), 
	parent_id INTEGER, 
	recipe JSON, 
	source TEXT NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_policy PRIMARY KEY (id), 
	CONSTRAINT uq_policy_hash UNIQUE (hash), 
	CONSTRAINT fk_policy_parent_id FOREIGN KEY(parent_id) REFERENCES policy (id)
);
CREATE TABLE policy_role (
	id INTEGER NOT NULL, 
	role VARCHAR(64) NOT NULL, 
	policy_id INTEGER NOT NULL, 
	undoes_id INTEGER, 
	evaluation_id INTEGER, 
	who VARCHAR(200) NOT NULL, 
	why TEXT NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_policy_role PRIMARY KEY (id), 
	CONSTRAINT fk_policy_role_policy_id FOREIGN KEY(policy_id) REFERENCES policy (id), 
	CONSTRAINT fk_policy_role_undoes_id FOREIGN KEY(undoes_id) REFERENCES policy_role (id), 
	CONSTRAINT fk_policy_role_evaluation_id FOREIGN KEY(evaluation_id) REFERENCES evaluation (id)
);
CREATE TABLE property (
	id INTEGER NOT NULL, 
	name VARCHAR(100) NOT NULL, 
	unit VARCHAR(40) NOT NULL, 
	kind VARCHAR(20) NOT NULL, 
	description TEXT NOT NULL, 
	CONSTRAINT pk_property PRIMARY KEY (id), 
	CONSTRAINT uq_property_name UNIQUE (name)
);
CREATE TABLE proposal (
	id INTEGER NOT NULL, 
	campaign_id INTEGER NOT NULL, 
	turn_id INTEGER, 
	candidate_id INTEGER, 
	status VARCHAR(20) NOT NULL, 
	reason VARCHAR(60), 
	operation VARCHAR(100), 
	text TEXT NOT NULL, 
	detail TEXT, 
	rationale TEXT, 
	predicted JSON, 
	novelty JSON, 
	filter_decision JSON, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_proposal PRIMARY KEY (id), 
	CONSTRAINT fk_proposal_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id), 
	CONSTRAINT fk_proposal_turn_id FOREIGN KEY(turn_id) REFERENCES turn (id), 
	CONSTRAINT fk_proposal_candidate_id FOREIGN KEY(candidate_id) REFERENCES candidate (id)
);
CREATE TABLE quantity (
	id INTEGER NOT NULL, 
	evidence_id INTEGER NOT NULL, 
	property_id INTEGER NOT NULL, 
	level_id INTEGER NOT NULL, 
	value DOUBLE NOT NULL, 
	uncertainty DOUBLE, 
	unit VARCHAR(40) NOT NULL, 
	censoring VARCHAR(10) NOT NULL, 
	n INTEGER NOT NULL, 
	as_typed TEXT, 
	CONSTRAINT pk_quantity PRIMARY KEY (id), 
	CONSTRAINT uq_quantity_evidence_id_property_id_level_id UNIQUE (evidence_id, property_id, level_id), 
	CONSTRAINT fk_quantity_evidence_id FOREIGN KEY(evidence_id) REFERENCES evidence (id), 
	CONSTRAINT fk_quantity_property_id FOREIGN KEY(property_id) REFERENCES property (id), 
	CONSTRAINT fk_quantity_level_id FOREIGN KEY(level_id) REFERENCES level (id)
);
CREATE TABLE reservation (
	id INTEGER NOT NULL, 
	campaign_id INTEGER NOT NULL, 
	job_id INTEGER NOT NULL, 
	resource VARCHAR(40) NOT NULL, 
	amount FLOAT NOT NULL, 
	at DATETIME NOT NULL, 
	released_at DATETIME, 
	CONSTRAINT pk_reservation PRIMARY KEY (id), 
	CONSTRAINT fk_reservation_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id), 
	CONSTRAINT fk_reservation_job_id FOREIGN KEY(job_id) REFERENCES job (id)
);
CREATE TABLE reward (
	id INTEGER NOT NULL, 
	reward_version_id INTEGER NOT NULL, 
	trajectory_id INTEGER NOT NULL, 
	turn_id INTEGER, 
	value DOUBLE, 
	return DOUBLE, 
	advantage DOUBLE, 
	terms JSON NOT NULL, 
	candidates JSON NOT NULL, 
	CONSTRAINT pk_reward PRIMARY KEY (id), 
	CONSTRAINT uq_reward_reward_version_id_trajectory_id_turn_id UNIQUE (reward_version_id, trajectory_id, turn_id), 
	CONSTRAINT fk_reward_reward_version_id FOREIGN KEY(reward_version_id) REFERENCES reward_version (id), 
	CONSTRAINT fk_reward_trajectory_id FOREIGN KEY(trajectory_id) REFERENCES trajectory (id), 
	CONSTRAINT fk_reward_turn_id FOREIGN KEY(turn_id) REFERENCES turn (id)
);
CREATE TABLE reward_spec (
	id INTEGER NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	spec JSON NOT NULL, 
	CONSTRAINT pk_reward_spec PRIMARY KEY (id), 
	CONSTRAINT uq_reward_spec_hash UNIQUE (hash)
);
CREATE TABLE reward_version (
	id INTEGER NOT NULL, 
	campaign_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	reward_spec_id INTEGER NOT NULL, 
	watermark INTEGER NOT NULL, 
	laws JSON NOT NULL, 
	prices JSON NOT NULL, 
	previous_id INTEGER, 
	code_version VARCHAR(100) NOT NULL, 
	at DATETIME NOT NULL, 
	guards JSON NOT NULL, 
	scope VARCHAR(64), 
	CONSTRAINT pk_reward_version PRIMARY KEY (id), 
	CONSTRAINT uq_reward_version_campaign_id_number UNIQUE (campaign_id, number), 
	CONSTRAINT fk_reward_version_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id), 
	CONSTRAINT fk_reward_version_reward_spec_id FOREIGN KEY(reward_spec_id) REFERENCES reward_spec (id), 
	CONSTRAINT fk_reward_version_previous_id FOREIGN KEY(previous_id) REFERENCES reward_version (id)
);
CREATE TABLE rollout_group (
	id INTEGER NOT NULL, 
	campaign_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	task JSON NOT NULL, 
	snapshot JSON NOT NULL, 
	snapshot_watermark INTEGER NOT NULL, 
	snapshot_seq INTEGER NOT NULL, 
	opening JSON NOT NULL, 
	opening_hash VARCHAR(64) NOT NULL, 
	tool_set_id INTEGER, 
	policy_id INTEGER, 
	seed INTEGER NOT NULL, 
	size INTEGER NOT NULL, 
	purpose VARCHAR(20) NOT NULL, 
	code_version VARCHAR(100) NOT NULL, 
	state VARCHAR(20) NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_rollout_group PRIMARY KEY (id), 
	CONSTRAINT uq_rollout_group_campaign_id_number UNIQUE (campaign_id, number), 
	CONSTRAINT fk_rollout_group_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id), 
	CONSTRAINT fk_rollout_group_tool_set_id FOREIGN KEY(tool_set_id) REFERENCES tool_set (id), 
	CONSTRAINT fk_rollout_group_policy_id FOREIGN KEY(policy_id) REFERENCES policy (id)
);
CREATE TABLE rung (
	id INTEGER NOT NULL, 
	campaign_id INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	verifier VARCHAR(100) NOT NULL, 
	verifier_version VARCHAR(40) NOT NULL, 
	tier VARCHAR(20) NOT NULL, 
	settings JSON NOT NULL, 
	gate JSON NOT NULL, 
	settings_hash VARCHAR(64) NOT NULL, 
	request JSON, 
	control BOOLEAN DEFAULT 0 NOT NULL, 
	decides JSON DEFAULT '{}' NOT NULL, 
	CONSTRAINT pk_rung PRIMARY KEY (id), 
	CONSTRAINT uq_rung_campaign_id_name UNIQUE (campaign_id, name), 
	CONSTRAINT uq_rung_campaign_id_position UNIQUE (campaign_id, position), 
	CONSTRAINT fk_rung_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id)
);
CREATE TABLE sample (
	id INTEGER NOT NULL, 
	code VARCHAR(16) NOT NULL, 
	candidate_id INTEGER NOT NULL, 
	job_id INTEGER NOT NULL, 
	parent_id INTEGER, 
	form VARCHAR(200) NOT NULL, 
	source VARCHAR(20) NOT NULL, 
	lot VARCHAR(100), 
	amount DOUBLE, 
	amount_unit VARCHAR(20), 
	purity DOUBLE, 
	purity_how VARCHAR(200), 
	made_by VARCHAR(200), 
	place VARCHAR(200), 
	made_on DATE, 
	state VARCHAR(20) NOT NULL, 
	who VARCHAR(200) NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_sample PRIMARY KEY (id), 
	CONSTRAINT uq_sample_code UNIQUE (code), 
	CONSTRAINT fk_sample_candidate_id FOREIGN KEY(candidate_id) REFERENCES candidate (id), 
	CONSTRAINT fk_sample_job_id FOREIGN KEY(job_id) REFERENCES job (id), 
	CONSTRAINT fk_sample_parent_id FOREIGN KEY(parent_id) REFERENCES sample (id)
);
CREATE TABLE spend (
	id INTEGER NOT NULL, 
	campaign_id INTEGER NOT NULL, 
	rung_id INTEGER, 
	attempt_id INTEGER, 
	resource VARCHAR(40) NOT NULL, 
	amount FLOAT NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_spend PRIMARY KEY (id), 
	CONSTRAINT fk_spend_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id), 
	CONSTRAINT fk_spend_rung_id FOREIGN KEY(rung_id) REFERENCES rung (id), 
	CONSTRAINT fk_spend_attempt_id FOREIGN KEY(attempt_id) REFERENCES attempt (id)
);
CREATE TABLE submission (
	id INTEGER NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	job_id INTEGER NOT NULL, 
	fence INTEGER NOT NULL, 
	revision INTEGER NOT NULL, 
	kind VARCHAR(20) NOT NULL, 
	of_id INTEGER, 
	person_id INTEGER, 
	access_id INTEGER, 
	sample_id INTEGER, 
	who VARCHAR(200) NOT NULL, 
	said JSON NOT NULL, 
	files JSON NOT NULL, 
	why TEXT, 
	evidence_id INTEGER, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_submission PRIMARY KEY (id), 
	CONSTRAINT uq_submission_key UNIQUE ("key"), 
	CONSTRAINT fk_submission_job_id FOREIGN KEY(job_id) REFERENCES job (id), 
	CONSTRAINT fk_submission_of_id FOREIGN KEY(of_id) REFERENCES submission (id), 
	CONSTRAINT fk_submission_person_id FOREIGN KEY(person_id) REFERENCES person (id), 
	CONSTRAINT fk_submission_access_id FOREIGN KEY(access_id) REFERENCES access (id), 
	CONSTRAINT fk_submission_sample_id FOREIGN KEY(sample_id) REFERENCES sample (id), 
	CONSTRAINT fk_submission_evidence_id FOREIGN KEY(evidence_id) REFERENCES evidence (id)
);
CREATE TABLE tool_set (
	id INTEGER NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	content JSON NOT NULL, 
	CONSTRAINT pk_tool_set PRIMARY KEY (id), 
	CONSTRAINT uq_tool_set_hash UNIQUE (hash)
);
CREATE TABLE training_use (
	id INTEGER NOT NULL, 
	policy_id INTEGER NOT NULL, 
	reward_version_id INTEGER NOT NULL, 
	turn_id INTEGER NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_training_use PRIMARY KEY (id), 
	CONSTRAINT uq_training_use_policy_id_reward_version_id_turn_id UNIQUE (policy_id, reward_version_id, turn_id), 
	CONSTRAINT fk_training_use_policy_id FOREIGN KEY(policy_id) REFERENCES policy (id), 
	CONSTRAINT fk_training_use_reward_version_id FOREIGN KEY(reward_version_id) REFERENCES reward_version (id), 
	CONSTRAINT fk_training_use_turn_id FOREIGN KEY(turn_id) REFERENCES turn (id)
);
CREATE TABLE trajectory (
	id INTEGER NOT NULL, 
	campaign_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	proposer VARCHAR(100) NOT NULL, 
	settings JSON NOT NULL, 
	seed INTEGER NOT NULL, 
	policy_version VARCHAR(200), 
	state VARCHAR(20) NOT NULL, 
	started_at DATETIME NOT NULL, 
	ended_at DATETIME, 
	ended_why TEXT, 
	purpose VARCHAR(20) DEFAULT 'campaign' NOT NULL, 
	group_id INTEGER, 
	sibling INTEGER, 
	code_version VARCHAR(100), 
	CONSTRAINT pk_trajectory PRIMARY KEY (id), 
	CONSTRAINT uq_trajectory_campaign_id_number UNIQUE (campaign_id, number), 
	CONSTRAINT fk_trajectory_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaign (id), 
	CONSTRAINT fk_trajectory_group_id FOREIGN KEY(group_id) REFERENCES rollout_group (id)
);
CREATE TABLE turn (
	id INTEGER NOT NULL, 
	trajectory_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	calls JSON NOT NULL, 
	observations JSON NOT NULL, 
	cost JSON NOT NULL, 
	cursor JSON, 
	message JSON, 
	sampling JSON, 
	prompt_ids JSON, 
	output_ids JSON, 
	logprobs JSON, 
	forced JSON, 
	template_hash VARCHAR(64), 
	kept INTEGER, 
	policy_version VARCHAR(200), 
	watermark INTEGER NOT NULL, 
	at DATETIME NOT NULL, 
	tool_set_id INTEGER, 
	policy_id INTEGER, 
	asked_watermark INTEGER, 
	asked_at DATETIME, 
	behaviour JSON, 
	untrainable TEXT, 
	CONSTRAINT pk_turn PRIMARY KEY (id), 
	CONSTRAINT uq_turn_trajectory_id_number UNIQUE (trajectory_id, number), 
	CONSTRAINT fk_turn_trajectory_id FOREIGN KEY(trajectory_id) REFERENCES trajectory (id), 
	CONSTRAINT fk_turn_tool_set_id FOREIGN KEY(tool_set_id) REFERENCES tool_set (id), 
	CONSTRAINT fk_turn_policy_id FOREIGN KEY(policy_id) REFERENCES policy (id)
);
CREATE TABLE watermark (
	id INTEGER NOT NULL, 
	value INTEGER NOT NULL, 
	CONSTRAINT pk_watermark PRIMARY KEY (id)
);
INSERT INTO "watermark" VALUES(1,0);
INSERT INTO "watermark" VALUES(2,0);
CREATE TABLE worker (
	id INTEGER NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	host VARCHAR(200) NOT NULL, 
	executor VARCHAR(20) NOT NULL, 
	pid INTEGER NOT NULL, 
	slots INTEGER NOT NULL, 
	queues JSON NOT NULL, 
	memory_mb INTEGER, 
	cores INTEGER, 
	resources JSON, 
	started_at DATETIME NOT NULL, 
	seen_at DATETIME NOT NULL, 
	until DATETIME NOT NULL, 
	stopped_at DATETIME, 
	draining BOOLEAN NOT NULL, 
	CONSTRAINT pk_worker PRIMARY KEY (id), 
	CONSTRAINT uq_worker_name UNIQUE (name)
);
CREATE TABLE wrong_password (
	id INTEGER NOT NULL, 
	subject VARCHAR(64) NOT NULL, 
	number INTEGER NOT NULL, 
	last_at DATETIME NOT NULL, 
	CONSTRAINT pk_wrong_password PRIMARY KEY (id), 
	CONSTRAINT uq_wrong_password_subject UNIQUE (subject)
);
CREATE INDEX ix_access_expires ON access (expires_at);
CREATE INDEX ix_access_person_id ON access (person_id);
CREATE INDEX ix_artifact_evidence_id ON artifact (evidence_id);
CREATE INDEX ix_artifact_removal_sha256 ON artifact_removal (sha256);
CREATE INDEX ix_artifact_sha256 ON artifact (sha256);
CREATE INDEX ix_attempt_campaign_state ON attempt (campaign_id, state);
CREATE INDEX ix_attempt_job_id ON attempt (job_id);
CREATE INDEX ix_attempt_progress ON attempt (progress_at) WHERE progress_at IS NOT NULL;
CREATE INDEX ix_attempt_rung_outcome ON attempt (rung_id, outcome);
CREATE INDEX ix_attempt_turn ON attempt (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX ix_audit_entry_campaign ON audit_entry (campaign_id, id);
CREATE INDEX ix_audit_entry_object ON audit_entry (object, object_id, id);
CREATE INDEX ix_calibration_campaign ON calibration (campaign_id, id);
CREATE INDEX ix_campaign_amendment_campaign_id ON campaign_amendment (campaign_id);
CREATE INDEX ix_campaign_candidate_best ON campaign_candidate (campaign_id, coalesce(chance, -1) DESC, coalesce(expected_utility, -1) DESC, coalesce(margin, -1000000) DESC, seq);
CREATE INDEX ix_campaign_candidate_hit ON campaign_candidate (campaign_id, candidate_id) WHERE is_hit = 1;
CREATE INDEX ix_campaign_candidate_open ON campaign_candidate (campaign_id, standing, position, seq);
CREATE INDEX ix_campaign_candidate_places ON campaign_candidate (campaign_id, position, standing, verdict, hit_tier);
CREATE INDEX ix_campaign_candidate_waiting ON campaign_candidate (campaign_id, standing, position, coalesce(chance, -1) DESC, coalesce(expected_utility, -1) DESC, coalesce(margin, -1000000) DESC, seq);
CREATE INDEX ix_campaign_hosted ON campaign (hosted, state);
CREATE INDEX ix_campaign_law_law_entry_id ON campaign_law (law_entry_id);
CREATE INDEX ix_candidate_alias_candidate_id ON candidate_alias (candidate_id);
CREATE INDEX ix_candidate_formula ON candidate (formula) WHERE kind != 'molecule';
CREATE INDEX ix_candidate_inchikey ON candidate (inchikey);
CREATE INDEX ix_candidate_name_text ON candidate_name (lower(text));
CREATE INDEX ix_candidate_parent_candidate_id ON candidate_parent (candidate_id);
CREATE INDEX ix_candidate_parent_parent_id ON candidate_parent (parent_id);
CREATE INDEX ix_candidate_scaffold_hash ON candidate (scaffold_hash, id);
CREATE INDEX ix_candidate_text ON candidate (text) WHERE kind != 'molecule';
CREATE INDEX ix_cost_observation_rung ON cost_observation (verifier, verifier_version, settings_hash, id);
CREATE INDEX ix_decision_campaign_action ON decision (campaign_id, action);
CREATE INDEX ix_decision_campaign_candidate ON decision (campaign_id, candidate_id);
CREATE INDEX ix_decision_rung_action ON decision (rung_id, action);
CREATE INDEX ix_directive_campaign ON directive (campaign_id, id);
CREATE INDEX ix_directive_candidate ON directive (campaign_id, candidate_id, id);
CREATE INDEX ix_evaluation_arm_policy ON evaluation_arm (policy_id);
CREATE INDEX ix_event_campaign_id ON event (campaign_id);
CREATE INDEX ix_evidence_attempt_id ON evidence (attempt_id);
CREATE INDEX ix_evidence_import ON evidence (candidate_id) WHERE verifier = 'import';
CREATE INDEX ix_evidence_lookup ON evidence (candidate_id, verifier, verifier_version, settings_hash, replicate);
CREATE INDEX ix_job_campaign_state ON job (campaign_id, state, priority);
CREATE INDEX ix_job_external ON job (external) WHERE external IS NOT NULL;
CREATE INDEX ix_job_lease ON job (state, lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX ix_job_needs ON job (state, queue, needs) WHERE needs IS NOT NULL;
CREATE INDEX ix_job_queue ON job (queue, state, campaign_id, priority DESC, id) WHERE queue IS NOT NULL;
CREATE INDEX ix_job_rung_state ON job (rung_id, state);
CREATE INDEX ix_lab_task_due ON lab_task (due_at);
CREATE INDEX ix_lab_task_in_review ON lab_task (in_review_id) WHERE in_review_id IS NOT NULL;
CREATE INDEX ix_lab_task_sample ON lab_task (sample_id);
CREATE INDEX ix_lab_task_sent_back ON lab_task (sent_back_id) WHERE sent_back_id IS NOT NULL;
CREATE INDEX ix_law_campaign ON law (campaign_id, id);
CREATE INDEX ix_policy_role_role ON policy_role (role, id);
CREATE INDEX ix_proposal_campaign_status ON proposal (campaign_id, status);
CREATE INDEX ix_proposal_candidate_id ON proposal (candidate_id);
CREATE INDEX ix_proposal_turn_id ON proposal (turn_id);
CREATE INDEX ix_quantity_property_value ON quantity (property_id, level_id, value);
CREATE INDEX ix_reservation_job_id ON reservation (job_id);
CREATE INDEX ix_reservation_live ON reservation (campaign_id) WHERE released_at IS NULL;
CREATE INDEX ix_reward_trajectory ON reward (trajectory_id);
CREATE INDEX ix_reward_version_scope ON reward_version (campaign_id, scope);
CREATE INDEX ix_sample_candidate_id ON sample (candidate_id);
CREATE INDEX ix_spend_campaign_rung ON spend (campaign_id, rung_id, resource, amount);
CREATE INDEX ix_submission_job ON submission (job_id, id);
CREATE INDEX ix_training_use_turn ON training_use (turn_id);
CREATE INDEX ix_trajectory_group ON trajectory (group_id, sibling) WHERE group_id IS NOT NULL;
CREATE INDEX ix_worker_until ON worker (until);
CREATE INDEX ix_wrong_password_last_at ON wrong_password (last_at);
CREATE TRIGGER artifact_no_delete BEFORE DELETE ON artifact BEGIN SELECT RAISE(ABORT, 'artifact is append-only: write a new revision'); END;
CREATE TRIGGER artifact_no_update BEFORE UPDATE ON artifact BEGIN SELECT RAISE(ABORT, 'artifact is append-only: write a new revision'); END;
CREATE TRIGGER artifact_removal_no_delete BEFORE DELETE ON artifact_removal BEGIN SELECT RAISE(ABORT, 'artifact_removal is append-only: write a new revision'); END;
CREATE TRIGGER artifact_removal_no_update BEFORE UPDATE ON artifact_removal BEGIN SELECT RAISE(ABORT, 'artifact_removal is append-only: write a new revision'); END;
CREATE TRIGGER audit_entry_no_delete BEFORE DELETE ON audit_entry BEGIN SELECT RAISE(ABORT, 'audit_entry is append-only: write a new revision'); END;
CREATE TRIGGER audit_entry_no_update BEFORE UPDATE ON audit_entry BEGIN SELECT RAISE(ABORT, 'audit_entry is append-only: write a new revision'); END;
CREATE TRIGGER calibration_no_delete BEFORE DELETE ON calibration BEGIN SELECT RAISE(ABORT, 'calibration is append-only: write a new revision'); END;
CREATE TRIGGER calibration_no_update BEFORE UPDATE ON calibration BEGIN SELECT RAISE(ABORT, 'calibration is append-only: write a new revision'); END;
CREATE TRIGGER campaign_amendment_no_delete BEFORE DELETE ON campaign_amendment BEGIN SELECT RAISE(ABORT, 'campaign_amendment is append-only: write a new revision'); END;
CREATE TRIGGER campaign_amendment_no_update BEFORE UPDATE ON campaign_amendment BEGIN SELECT RAISE(ABORT, 'campaign_amendment is append-only: write a new revision'); END;
CREATE TRIGGER campaign_law_no_delete BEFORE DELETE ON campaign_law BEGIN SELECT RAISE(ABORT, 'campaign_law is append-only: write a new revision'); END;
CREATE TRIGGER campaign_law_no_update BEFORE UPDATE ON campaign_law BEGIN SELECT RAISE(ABORT, 'campaign_law is append-only: write a new revision'); END;
CREATE TRIGGER campaign_policy_no_delete BEFORE DELETE ON campaign_policy BEGIN SELECT RAISE(ABORT, 'campaign_policy is append-only: write a new revision'); END;
CREATE TRIGGER campaign_policy_no_update BEFORE UPDATE ON campaign_policy BEGIN SELECT RAISE(ABORT, 'campaign_policy is append-only: write a new revision'); END;
CREATE TRIGGER cost_observation_no_delete BEFORE DELETE ON cost_observation BEGIN SELECT RAISE(ABORT, 'cost_observation is append-only: write a new revision'); END;
CREATE TRIGGER cost_observation_no_update BEFORE UPDATE ON cost_observation BEGIN SELECT RAISE(ABORT, 'cost_observation is append-only: write a new revision'); END;
CREATE TRIGGER decision_no_delete BEFORE DELETE ON decision BEGIN SELECT RAISE(ABORT, 'decision is append-only: write a new revision'); END;
CREATE TRIGGER decision_no_update BEFORE UPDATE ON decision BEGIN SELECT RAISE(ABORT, 'decision is append-only: write a new revision'); END;
CREATE TRIGGER directive_no_delete BEFORE DELETE ON directive BEGIN SELECT RAISE(ABORT, 'directive is append-only: write a new revision'); END;
CREATE TRIGGER directive_no_update BEFORE UPDATE ON directive BEGIN SELECT RAISE(ABORT, 'directive is append-only: write a new revision'); END;
CREATE TRIGGER evaluation_arm_no_delete BEFORE DELETE ON evaluation_arm BEGIN SELECT RAISE(ABORT, 'evaluation_arm is append-only: write a new revision'); END;
CREATE TRIGGER evaluation_arm_no_update BEFORE UPDATE ON evaluation_arm BEGIN SELECT RAISE(ABORT, 'evaluation_arm is append-only: write a new revision'); END;
CREATE TRIGGER evaluation_no_delete BEFORE DELETE ON evaluation BEGIN SELECT RAISE(ABORT, 'evaluation is append-only: write a new revision'); END;
CREATE TRIGGER evaluation_no_update BEFORE UPDATE ON evaluation BEGIN SELECT RAISE(ABORT, 'evaluation is append-only: write a new revision'); END;
CREATE TRIGGER evidence_no_delete BEFORE DELETE ON evidence BEGIN SELECT RAISE(ABORT, 'evidence is append-only: write a new revision'); END;
CREATE TRIGGER evidence_no_update BEFORE UPDATE ON evidence BEGIN SELECT RAISE(ABORT, 'evidence is append-only: write a new revision'); END;
CREATE TRIGGER law_no_delete BEFORE DELETE ON law BEGIN SELECT RAISE(ABORT, 'law is append-only: write a new revision'); END;
CREATE TRIGGER law_no_update BEFORE UPDATE ON law BEGIN SELECT RAISE(ABORT, 'law is append-only: write a new revision'); END;
CREATE TRIGGER likeness_no_delete BEFORE DELETE ON likeness BEGIN SELECT RAISE(ABORT, 'likeness is append-only: write a new revision'); END;
CREATE TRIGGER likeness_no_update BEFORE UPDATE ON likeness BEGIN SELECT RAISE(ABORT, 'likeness is append-only: write a new revision'); END;
CREATE TRIGGER policy_no_delete BEFORE DELETE ON policy BEGIN SELECT RAISE(ABORT, 'policy is append-only: write a new revision'); END;
CREATE TRIGGER policy_no_update BEFORE UPDATE ON policy BEGIN SELECT RAISE(ABORT, 'policy is append-only: write a new revision'); END;
CREATE TRIGGER policy_role_no_delete BEFORE DELETE ON policy_role BEGIN SELECT RAISE(ABORT, 'policy_role is append-only: write a new revision'); END;
CREATE TRIGGER policy_role_no_update BEFORE UPDATE ON policy_role BEGIN SELECT RAISE(ABORT, 'policy_role is append-only: write a new revision'); END;
CREATE TRIGGER proposal_no_delete BEFORE DELETE ON proposal BEGIN SELECT RAISE(ABORT, 'proposal is append-only: write a new revision'); END;
CREATE TRIGGER proposal_no_update BEFORE UPDATE ON proposal BEGIN SELECT RAISE(ABORT, 'proposal is append-only: write a new revision'); END;
CREATE TRIGGER quantity_no_delete BEFORE DELETE ON quantity BEGIN SELECT RAISE(ABORT, 'quantity is append-only: write a new revision'); END;
CREATE TRIGGER quantity_no_update BEFORE UPDATE ON quantity BEGIN SELECT RAISE(ABORT, 'quantity is append-only: write a new revision'); END;
CREATE TRIGGER reward_no_delete BEFORE DELETE ON reward BEGIN SELECT RAISE(ABORT, 'reward is append-only: write a new revision'); END;
CREATE TRIGGER reward_no_update BEFORE UPDATE ON reward BEGIN SELECT RAISE(ABORT, 'reward is append-only: write a new revision'); END;
CREATE TRIGGER reward_spec_no_delete BEFORE DELETE ON reward_spec BEGIN SELECT RAISE(ABORT, 'reward_spec is append-only: write a new revision'); END;
CREATE TRIGGER reward_spec_no_update BEFORE UPDATE ON reward_spec BEGIN SELECT RAISE(ABORT, 'reward_spec is append-only: write a new revision'); END;
CREATE TRIGGER reward_version_no_delete BEFORE DELETE ON reward_version BEGIN SELECT RAISE(ABORT, 'reward_version is append-only: write a new revision'); END;
CREATE TRIGGER reward_version_no_update BEFORE UPDATE ON reward_version BEGIN SELECT RAISE(ABORT, 'reward_version is append-only: write a new revision'); END;
CREATE TRIGGER rollout_group_no_delete BEFORE DELETE ON rollout_group BEGIN SELECT RAISE(ABORT, 'rollout_group is append-only: write a new revision'); END;
CREATE TRIGGER rollout_group_no_update BEFORE UPDATE OF id, campaign_id, number, task, snapshot, snapshot_watermark, snapshot_seq, opening, opening_hash, tool_set_id, policy_id, seed, size, purpose, code_version, at ON rollout_group BEGIN SELECT RAISE(ABORT, 'rollout_group is append-only: write a new revision'); END;
CREATE TRIGGER spend_no_delete BEFORE DELETE ON spend BEGIN SELECT RAISE(ABORT, 'spend is append-only: write a new revision'); END;
CREATE TRIGGER spend_no_update BEFORE UPDATE ON spend BEGIN SELECT RAISE(ABORT, 'spend is append-only: write a new revision'); END;
CREATE TRIGGER submission_no_delete BEFORE DELETE ON submission BEGIN SELECT RAISE(ABORT, 'submission is append-only: write a new revision'); END;
CREATE TRIGGER submission_no_update BEFORE UPDATE ON submission BEGIN SELECT RAISE(ABORT, 'submission is append-only: write a new revision'); END;
CREATE TRIGGER tool_set_no_delete BEFORE DELETE ON tool_set BEGIN SELECT RAISE(ABORT, 'tool_set is append-only: write a new revision'); END;
CREATE TRIGGER tool_set_no_update BEFORE UPDATE ON tool_set BEGIN SELECT RAISE(ABORT, 'tool_set is append-only: write a new revision'); END;
CREATE TRIGGER training_use_no_delete BEFORE DELETE ON training_use BEGIN SELECT RAISE(ABORT, 'training_use is append-only: write a new revision'); END;
CREATE TRIGGER training_use_no_update BEFORE UPDATE ON training_use BEGIN SELECT RAISE(ABORT, 'training_use is append-only: write a new revision'); END;
CREATE TRIGGER trajectory_no_delete BEFORE DELETE ON trajectory BEGIN SELECT RAISE(ABORT, 'trajectory is append-only: write a new revision'); END;
CREATE TRIGGER trajectory_no_update BEFORE UPDATE OF id, campaign_id, number, proposer, settings, seed, policy_version, started_at, purpose, group_id, sibling, code_version ON trajectory BEGIN SELECT RAISE(ABORT, 'trajectory is append-only: write a new revision'); END;
CREATE TRIGGER turn_no_delete BEFORE DELETE ON turn BEGIN SELECT RAISE(ABORT, 'turn is append-only: write a new revision'); END;
CREATE TRIGGER turn_no_update BEFORE UPDATE ON turn BEGIN SELECT RAISE(ABORT, 'turn is append-only: write a new revision'); END;
CREATE UNIQUE INDEX ix_membership_everywhere ON membership (person_id) WHERE campaign_id IS NULL;
CREATE VIEW current_evidence AS SELECT e.* FROM evidence e
WHERE NOT EXISTS (SELECT 1 FROM evidence later WHERE later.supersedes_id = e.id);
COMMIT;
