"""The lanes of the tests, and what only the nightly lane runs.

- quick: `make test-quick`. No broker, no Airflow, no container.
- standard: `make test`. Each behaviour once, on real brokers, Airflow, containers and a browser.
- nightly: `make test-all`. Also the whole catalogue, and tests that repeat a behaviour on another release or driver.

`NIGHTLY` names each test that only the nightly lane runs, with its twin: the test of the standard lane that holds the
same behaviour. A key is the beginning of a node id below `tests/`, or all of it; `[parameter` at its end also names the
first parameter. The twin is one of the same form.
"""

from __future__ import annotations

NIGHTLY: dict[str, str] = {
    "system/test_break.py::test_a_break_that_is_ended_half_way_heals[ctrl-c": (
        "system/test_break.py::test_a_break_that_is_ended_half_way_heals[sigkill"
    ),
    "chaos/pages/test_hdfs.py": "chaos/pages/test_remote.py::test_what_is_outside_or_foreign_is_not_served",
    "checks/audit/test_machines.py::test_corrected_times_give_what_one_clock_gives": (
        "checks/audit/test_machines.py::test_a_rule_is_decided_if_events_are_further_apart_than_the_clocks_are_unknown"
    ),
    "system/test_celery.py::test_a_deploy_waits_deferred_for_a_slot_and_one_that_is_ended_meanwhile_leaves_nothing": (
        "dags/test_slots.py::test_a_task_without_a_slot_defers_and_runs_when_one_is_free"
    ),
    "system/test_celery.py::test_a_run_stays_on_the_worker_of_the_queue_and_without_a_queue_it_is_refused": (
        "dags/test_workers.py::test_a_run_without_a_queue_or_a_common_folder_is_refused_and_so_are_pods"
    ),
    "system/test_lineage.py": (
        "system/test_airflow.py::test_the_demo_runs_through_airflow_and_proves_all_three_faults"
    ),
    "system/test_pages_airflow.py": (
        "chaos/pages/test_app.py::test_two_servers_and_a_writer_share_one_folder_and_lose_nothing"
    ),
    "system/test_fleet_machines.py": (
        "system/test_fleet.py::test_clients_on_two_workers_pass_and_every_record_is_in_the_ledger"
    ),
    "system/test_fleet_store.py": (
        "system/test_fleet.py::test_the_large_tables_of_workers_go_to_a_folder_by_url_and_are_audited_there"
    ),
    "system/test_two_readers.py": (
        "chaos/pages/test_app.py::test_two_servers_and_a_writer_share_one_folder_and_lose_nothing"
    ),
    "system/test_celery_fleet.py": (
        "dags/test_clients.py::test_a_run_has_a_task_for_each_worker_and_is_refused_if_they_do_not_fit"
    ),
    "chaos/cluster/test_secured.py::test_a_run_with_tokens_shows_neither_them_nor_the_keys_of_their_issuer": (
        "chaos/cluster/test_issuer.py::test_a_token_is_signed_by_the_key_that_brokers_get"
    ),
    "system/test_interrupted.py::test_ctrl_c_at_each_stage_leaves_nothing": (
        "system/test_interrupted.py::test_ctrl_c_ends_everything"
    ),
    "chaos/cluster/test_secured.py::test_every_client_logs_in_and_no_file_has_a_secret": (
        "chaos/cluster/test_secured.py::test_a_run_shows_its_secrets_nowhere_and_a_refused_send_has_failed"
    ),
    "chaos/cluster/test_secured.py::test_containers_are_secured_as_processes_are": (
        "chaos/cluster/test_secured.py::test_platform_and_clients_log_in_and_others_do_not[mutual-4.3.1"
    ),
    "chaos/cluster/test_secured.py::test_platform_and_clients_log_in_and_others_do_not[mutual-3.3.2": (
        "chaos/cluster/test_secured.py::test_platform_and_clients_log_in_and_others_do_not[mutual-4.3.1"
    ),
    "chaos/cluster/test_secured.py::test_platform_and_clients_log_in_and_others_do_not[plain-4.3.1": (
        "chaos/cluster/test_secured.py::test_platform_and_clients_log_in_and_others_do_not[mutual-4.3.1"
    ),
    "chaos/cluster/test_secured.py::test_platform_and_clients_log_in_and_others_do_not[scram-3.9.2": (
        "chaos/cluster/test_secured.py::test_platform_and_clients_log_in_and_others_do_not[mutual-4.3.1"
    ),
    "chaos/cluster/test_controllers.py::test_controllers_start_end_and_return[process-3": (
        "chaos/cluster/test_controllers.py::test_controllers_start_end_and_return[process-4.3.1"
    ),
    "chaos/cluster/test_controllers.py::test_controllers_start_end_and_return[docker": (
        "chaos/cluster/test_controllers.py::test_controllers_start_end_and_return[process-4.3.1"
    ),
    "chaos/cluster/test_conformance.py::test_a_slow_disk_shows_in_the_times_that_the_broker_reports[process-3": (
        "chaos/cluster/test_conformance.py::test_a_slow_disk_shows_in_the_times_that_the_broker_reports[process-4.3.1"
    ),
    "chaos/cluster/test_slow_disks.py::test_the_node_itself_reports_that_its_disk_is_slow_and_that_it_is_fast_again": (
        "chaos/cluster/test_conformance.py::test_a_slow_disk_shows_in_the_times_that_the_broker_reports[process-4.3.1"
    ),
    "system/test_scenarios.py::test_a_shipped_scenario_meets_its_contract[clock-client": (
        "chaos/clients/test_clocks.py::test_a_client_sees_another_time_and_its_rows_have_that_of_the_machine"
    ),
    "system/test_scenarios.py::test_a_shipped_scenario_meets_its_contract[clock-logins": (
        "chaos/faults/test_clocks.py::test_a_reading_contains_how_far_the_clock_is_ahead"
    ),
    "system/test_scenarios.py::test_a_shipped_scenario_meets_its_contract[clock-skew": (
        "chaos/cluster/test_conformance.py::test_a_clock_that_is_set_is_the_one_that_the_broker_has_also_after_a_restart"
    ),
    "system/test_scenarios.py::test_a_shipped_scenario_meets_its_contract[slow-disk": (
        "chaos/cluster/test_conformance.py::test_a_slow_disk_shows_in_the_times_that_the_broker_reports[process-4.3.1"
    ),
    "chaos/cluster/test_kubernetes.py::test_brokers_are_killed_paused_and_rolled_by_kubectl[kubernetes-strimzi": (
        "chaos/cluster/test_kubernetes.py::test_brokers_are_killed_paused_and_rolled_by_kubectl[kubernetes-statefulset"
    ),
    "checks/audit/test_mutations.py::test_every_check_is_meant_by_some_change[all": (
        "checks/audit/test_mutations.py::test_every_check_is_meant_by_some_change[some"
    ),
    "checks/audit/test_mutations.py::test_the_oracle_finds_what_is_meant_by_hand[all": (
        "checks/audit/test_mutations.py::test_the_oracle_finds_what_is_meant_by_hand[some"
    ),
    "checks/audit/test_mutations.py::test_the_audit_finds_what_is_meant[all": (
        "checks/audit/test_mutations.py::test_the_audit_finds_what_is_meant[some"
    ),
    "system/test_prove.py": "chaos/prove/test_judge.py",
    "system/test_airflow.py::test_a_proof_runs_through_airflow": "chaos/prove/test_judge.py",
    "system/test_share_groups.py": "checks/audit/test_stories.py::test_story[delivered_beyond_the_limit",
    "chaos/clients/java/test_java.py::test_java_members_move_partitions_one_by_one": (
        "chaos/clients/test_fleet.py::test_partitions_move_one_by_one_and_no_record_is_delivered_twice"
    ),
    "chaos/clients/test_consumers.py::test_a_pool_finishes_records_out_of_order_and_its_window_stays_behind[java": (
        "chaos/clients/test_consumers.py::test_a_pool_finishes_records_out_of_order_and_its_window_stays_behind[confluent"
    ),
    "chaos/clients/test_consumers.py::test_threads_of_one_process_are_members_and_crash_together[java": (
        "chaos/clients/test_consumers.py::test_threads_of_one_process_are_members_and_crash_together[confluent"
    ),
    "chaos/clients/java/test_java.py::test_java_members_are_static_commit_by_themselves_and_find_topics[2.8.2": (
        "chaos/clients/java/test_java.py::test_java_members_are_static_commit_by_themselves_and_find_topics[4.3.1"
    ),
    "chaos/clients/java/test_java.py::test_java_members_are_static_commit_by_themselves_and_find_topics[3.9.2": (
        "chaos/clients/java/test_java.py::test_java_members_are_static_commit_by_themselves_and_find_topics[4.3.1"
    ),
    "chaos/clients/java/test_java.py::test_a_java_member_that_leaves_within_a_batch_commits_what_it_processed[2.8.2": (
        "chaos/clients/java/test_java.py::test_a_java_member_that_leaves_within_a_batch_commits_what_it_processed[4.3.1"
    ),
    "chaos/clients/java/test_java.py::test_java_clients_write_read_restart_and_transform_and_their_rows_agree[2.8.2": (
        "chaos/clients/java/test_java.py::test_java_clients_write_read_restart_and_transform_and_their_rows_agree[4.3.1"
    ),
    "chaos/clients/sarama/test_sarama.py::test_sarama_clients_write_read_and_restart_and_their_rows_agree[1.43.3": (
        "chaos/clients/sarama/test_sarama.py::test_sarama_clients_write_read_and_restart_and_their_rows_agree[1.61.1"
    ),
    "chaos/clients/franz_go/test_franz_go.py::test_franz_go_clients_write_read_and_restart_and_their_rows_agree": (
        "chaos/clients/sarama/test_sarama.py::test_sarama_clients_write_read_and_restart_and_their_rows_agree[1.61.1"
    ),
    "chaos/clients/franz_go/test_franz_go.py::test_franz_go_members_share_partitions_with_every_balancer": (
        "chaos/clients/test_fleet.py::test_partitions_move_one_by_one_and_no_record_is_delivered_twice"
    ),
    "chaos/clients/franz_go/test_franz_go.py::test_franz_go_members_are_static_match_patterns_and_commit": (
        "chaos/clients/java/test_java.py::test_java_members_are_static_commit_by_themselves_and_find_topics[4.3.1"
    ),
    "chaos/clients/franz_go/test_franz_go.py::test_a_franz_go_client_that_cannot_start_reports_the_reason": (
        "chaos/clients/sarama/test_sarama.py::test_a_sarama_client_that_cannot_start_reports_the_reason"
    ),
    "chaos/clients/sarama/test_sarama.py::test_sarama_members_share_partitions_with_every_strategy": (
        "chaos/clients/test_fleet.py::test_partitions_move_one_by_one_and_no_record_is_delivered_twice"
    ),
    "chaos/clients/sarama/test_sarama.py::test_sarama_members_are_static_commit_by_themselves_and_find_partitions": (
        "chaos/clients/java/test_java.py::test_java_members_are_static_commit_by_themselves_and_find_topics[4.3.1"
    ),
    "chaos/clients/flink/test_flink.py::test_a_flink_job_restores_its_checkpoint_and_commits_it_and_its_rows_agree": (
        "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[flink-assign_consumer"
    ),
    "chaos/clients/flink/test_session.py::test_a_subtask_restores_its_checkpoint_in_another_task_manager[1.20.5": (
        "chaos/clients/flink/test_session.py::test_a_subtask_restores_its_checkpoint_in_another_task_manager[2.3.0"
    ),
    "chaos/clients/flink/test_session.py::test_a_task_manager_that_ends_by_itself_is_reported": (
        "chaos/clients/flink/test_session.py::test_a_subtask_restores_its_checkpoint_in_another_task_manager[2.3.0"
    ),
    "chaos/clients/flink/test_flink.py::test_a_flink_job_that_writes_restores_its_checkpoint_and_its_rows_agree[at": (
        "chaos/clients/flink/test_flink.py::test_a_flink_job_that_writes_restores_its_checkpoint_and_its_rows_agree[exactly"
    ),
    "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[flink-producer": (
        "chaos/clients/flink/test_flink.py::test_a_flink_job_that_writes_restores_its_checkpoint_and_its_rows_agree[exactly"
    ),
    "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[franz-go-producer": (
        "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[franz-go-group_consumer"
    ),
    "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[franz-go-transactions": (
        "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[franz-go-group_consumer"
    ),
    "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[franz-go-assign_consumer": (
        "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[franz-go-group_consumer"
    ),
    "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[sarama-producer": (
        "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[sarama-group_consumer"
    ),
    "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[sarama-transactions": (
        "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[sarama-group_consumer"
    ),
    "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[sarama-assign_consumer": (
        "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[sarama-group_consumer"
    ),
    "chaos/clients/streams/test_streams.py::test_threads_count_each_input_once_across_a_crash[3.9.2": (
        "chaos/clients/streams/test_streams.py::test_threads_count_each_input_once_across_a_crash[4.3.1"
    ),
    "chaos/clients/streams/test_streams.py::test_threads_count_each_input_once_across_a_crash[2.8.2": (
        "chaos/clients/streams/test_streams.py::test_threads_count_each_input_once_across_a_crash[4.3.1"
    ),
    "chaos/clients/streams/test_streams.py::test_a_member_that_exceeds_the_poll_interval_loses_its_tasks": (
        "chaos/clients/streams/test_streams.py::test_threads_count_each_input_once_across_a_crash[4.3.1"
    ),
    "chaos/clients/streams/test_streams.py::test_at_least_once_commits_without_transactions": (
        "chaos/clients/streams/test_streams.py::test_threads_count_each_input_once_across_a_crash[4.3.1"
    ),
    "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[kafka-python-producer": (
        "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[kafka-python-group_consumer"
    ),
    "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[kafka-python-transactions": (
        "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[kafka-python-group_consumer"
    ),
    "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[kafka-python-assign_consumer": (
        "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[kafka-python-group_consumer"
    ),
    "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[aiokafka-producer": (
        "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[aiokafka-group_consumer"
    ),
    "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[aiokafka-transactions": (
        "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[aiokafka-group_consumer"
    ),
    "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[aiokafka-assign_consumer": (
        "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[aiokafka-group_consumer"
    ),
    "chaos/clients/test_conformance.py::test_the_example_of_the_page_keeps_every_point_of_a_producer": (
        "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[java-producer"
    ),
    "chaos/cluster/test_conformance.py[process-3.9.2": "chaos/cluster/test_conformance.py[process-4.3.1",
    "chaos/cluster/test_conformance.py[docker-3.9.2": "chaos/cluster/test_conformance.py[docker-4.3.1",
    "system/test_scenarios.py::test_another_kafka_release_runs_the_same_scenario": "system/test_gate.py",
    "system/test_scenarios.py::test_a_release_with_zookeeper_meets_the_same_contracts": (
        "system/test_gate.py::test_a_gate_runs_every_cell_with_its_releases_and_bundles_each_failure"
    ),
    "chaos/clients/spark/test_spark.py::test_a_partition_that_was_added_begins_at_its_first_record": (
        "chaos/clients/spark/test_spark.py::test_a_killed_query_runs_its_batch_again_and_a_sink_that_deduplicates"
    ),
    "checks/spark/test_paths.py": "system/test_installed.py::test_a_scenario_runs_from_command_to_verdict",
    "system/test_airflow.py::test_the_gate_runs_through_airflow_and_is_green_only_if_each_cell_passes": (
        "system/test_gate.py::test_a_gate_runs_every_cell_with_its_releases_and_bundles_each_failure"
    ),
    "system/test_airflow.py::test_an_incident_is_reproduced_through_airflow": (
        "system/test_incident.py::test_a_replay_shows_the_same_with_the_same_releases"
    ),
    "system/test_former_layout.py::test_a_replay_loses_records_again": (
        "system/test_incident.py::test_a_replay_shows_the_same_with_the_same_releases"
    ),
    "system/test_incident.py::test_the_scenario_from_its_broker_logs_loses_records_too": (
        "chaos/incident/logs/test_from_logs.py"
    ),
    "system/test_compose.py::test_a_contract_that_does_not_hold_is_a_failed_run": (
        "system/test_airflow.py::test_a_dag_whose_contract_is_broken_is_not_green"
    ),
    "system/test_docker.py::test_a_shipped_scenario_runs_on_containers_as_it_does_on_processes": (
        "system/test_docker.py::test_every_fault_of_containers_is_proven_and_healed"
    ),
    "chaos/cluster/test_attached.py::test_a_run_over_sasl_and_tls_leaves_no_password_topic_or_group": (
        "system/test_airflow_attached.py::test_a_dag_runs_on_the_cluster_of_a_connection_and_leaves_no_password"
    ),
    "system/test_scenarios.py::test_a_shipped_scenario_meets_its_contract[acks1-leader-kill/acks-1": (
        "system/test_incident.py::test_the_run_names_the_lost_records_with_their_mechanism"
    ),
    "system/test_scenarios.py::test_a_shipped_scenario_meets_its_contract[assign-same-group": (
        "chaos/clients/test_fleet.py::test_each_group_and_each_assign_consumer_receives_and_counts_all_records"
    ),
    "system/test_scenarios.py::test_a_shipped_scenario_meets_its_contract[auto-commit-crash/default": (
        "chaos/clients/test_consumers.py::test_automatic_commits_are_recorded_and_with_librdkafka_defaults_run_ahead"
    ),
    "system/test_scenarios.py::test_a_shipped_scenario_meets_its_contract[clean-run": (
        "system/test_gate.py::test_a_gate_runs_every_cell_with_its_releases_and_bundles_each_failure"
    ),
    "system/test_scenarios.py::test_a_shipped_scenario_meets_its_contract[group-split": (
        "chaos/clients/test_fleet.py::test_partitions_move_one_by_one_and_no_record_is_delivered_twice"
    ),
    "system/test_scenarios.py::test_a_shipped_scenario_meets_its_contract[oversized-records": (
        "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[confluent-producer"
    ),
    "system/test_scenarios.py::test_a_shipped_scenario_meets_its_contract[producer-restart": (
        "chaos/clients/test_transactions.py::test_a_producer_that_resends_restarts_at_the_first_unacknowledged_record"
    ),
    "system/test_scenarios.py::test_a_shipped_scenario_meets_its_contract[send-modes": (
        "chaos/clients/test_transactions.py::test_every_record_has_a_row_in_each_mode"
    ),
    "system/test_scenarios.py::test_a_shipped_scenario_meets_its_contract[worker-pool/naive": (
        "chaos/clients/test_consumers.py::test_a_pool_finishes_records_out_of_order_and_its_window_stays_behind"
    ),
    "system/test_scenarios.py::test_each_assign_consumer_gets_every_record": (
        "chaos/clients/test_fleet.py::test_each_group_and_each_assign_consumer_receives_and_counts_all_records"
    ),
    "system/test_scenarios.py::test_a_fault_that_changed_nothing_is_inconclusive_not_green": (
        "system/test_ui.py::test_a_scheduled_run_is_recorded_published_and_notified_and_ctrl_c_ends_everything"
    ),
    "system/test_spark_cluster.py::test_a_part_that_is_missing_in_hdfs_is_named": (
        "system/test_spark_cluster.py::test_file_uris_are_read_in_place_and_a_damaged_part_is_named"
    ),
    "system/test_scenarios.py::test_a_shipped_scenario_meets_its_contract[hanging-transaction": (
        "chaos/clients/test_transactions.py::test_a_hanging_transaction_is_unknown_and_not_readable"
    ),
    "system/test_scenarios.py::test_a_shipped_scenario_meets_its_contract[retry-reorder/plain": (
        "chaos/relay/test_brokers.py::test_a_dropped_request_is_not_written"
    ),
    "system/test_scenarios.py::test_a_copied_run_directory_is_judged_again_offline": (
        "system/test_incident.py::test_the_same_loss_fails_a_contract_that_forbids_it"
    ),
    "system/test_scenarios.py::test_a_load_beyond_its_limit_is_inconclusive_and_none_of_it_counts_as_stalled": (
        "checks/expectations/test_judgement.py::test_a_drive_that_broke_off_makes_stalled_delivery_inconclusive"
    ),
    "system/test_compare_clients.py": (
        "system/test_gate.py::test_a_gate_runs_every_cell_with_its_releases_and_bundles_each_failure"
    ),
    "chaos/relay/test_relay_dies.py": (
        "chaos/relay/test_brokers.py::test_a_proxy_that_ends_during_the_run_is_reported"
    ),
    "chaos/cluster/test_portability.py": ("system/test_installed.py::test_a_scenario_runs_from_command_to_verdict"),
}


def matches(key: str, node_id: str) -> bool:
    """Return whether a key of `NIGHTLY` names this node id. A key with `[parameter` needs parameters that begin so."""
    start, bracket, parameter = key.partition("[")
    node = node_id.removeprefix("tests/")
    return node.startswith(start) and (not bracket or f"[{parameter}" in node)


def is_nightly(node_id: str) -> bool:
    """Return whether only the nightly lane runs this test."""
    return any(matches(key, node_id) for key in NIGHTLY)
