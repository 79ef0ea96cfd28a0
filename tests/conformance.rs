//! The behaviour suite: every test once on each engine. A test is a function in `suite/`; what is mounted where is the table
//! below, and a function that is missing in it is a warning of the compiler.
//!
//! Engines are modules of tests: `embedded`, `slow` (the embedded engine with replies that take 5 ms), `redis`, `redis_oldest`, `valkey`,
//! `cluster` and `service` (the imitation of a service, which `cargo xtask services` runs). A server that is missing is a failure that
//! names the command which gets one.

mod suite;
mod support;

/// Mounts tests as `engine::group::file::test`, ignored where the condition is true: `any()` is false, and `all()` is true.
macro_rules! mount {
    ($engine:ident = $kind:ident { $($tests:tt)+ }) => { mount!(any(), $engine = $kind { $($tests)+ }); };
    ($ignored:meta, $engine:ident = $kind:ident { $($group:ident { $($file:ident: $($test:ident),+;)+ })+ }) => {
        mod $engine {
            $(mod $group {
                $(mod $file {
                    $(#[test]
                    #[cfg_attr($ignored, ignore = "`cargo xtask services` runs it")]
                    fn $test() {
                        crate::support::run(crate::support::Engine::$kind, crate::suite::$file::$test);
                    })+
                })+
            })+
        }
    };
}

/// Mounts on every engine, where what is sent is recorded, too; on those whose connections can be broken; on real ones among these; on
/// the embedded one. Copies of what was recorded are delivered past every way that takes time.
macro_rules! suite {
    (everywhere { $($all:tt)+ } recordable { $($told:tt)+ } breakable { $($broken:tt)+ } servers { $($real:tt)+ } inside { $($inside:tt)+ }) => {
        mount!(embedded = Embedded { everywhere { $($all)+ } recordable { $($told)+ } breakable { $($broken)+ } inside { $($inside)+ } });
        mount!(slow = Slow { everywhere { $($all)+ } breakable { $($broken)+ } });
        mount!(redis = Redis { everywhere { $($all)+ } recordable { $($told)+ } breakable { $($broken)+ } servers { $($real)+ } });
        mount!(redis_oldest = OldestRedis { everywhere { $($all)+ } recordable { $($told)+ } breakable { $($broken)+ } servers { $($real)+ } });
        mount!(valkey = Valkey { everywhere { $($all)+ } recordable { $($told)+ } breakable { $($broken)+ } servers { $($real)+ } });
        mount!(cluster = Cluster { everywhere { $($all)+ } recordable { $($told)+ } });
        mount!(all(), service = Service { everywhere { $($all)+ } breakable { $($broken)+ } });
    };
}

suite! {
    everywhere {
        acquire:
            ten_tries_at_once_get_in_where_there_is_room_for_ten,
            as_many_concurrent_tries_get_in_as_there_is_room_for;
        reentry:
            three_functions_that_take_the_same_lock,
            branches_with_owners_of_their_own_exclude_each_other,
            a_guard_reenters_without_an_owner,
            an_owner_is_named_or_inherited_and_the_innermost_counts,
            a_scope_of_one_client_does_not_hide_that_of_another,
            a_scope_does_not_cross_spawn,
            an_owner_takes_its_lock_again_after_a_full_release,
            lost_hold_stays_lost_for_its_owner_until_its_guards_go;
        waiting:
            a_try_on_a_busy_lock_is_none_at_once,
            elapsed_wait_names_the_holder_of_every_exclusive_kind,
            elapsed_wait_says_that_its_task_waited_for_itself,
            a_wait_until_an_instant_ends_then,
            a_wait_that_runs_out_makes_a_last_attempt,
            a_wait_of_zero_is_one_attempt,
            a_wait_without_end_does_not_overflow,
            a_release_wakes_another_client_without_polling,
            many_waiters_are_one_subscription_and_one_attempt_a_release,
            a_waiter_gets_what_a_crashed_holder_left_when_the_lease_ends;
        input:
            names_are_checked_before_anything_is_sent,
            durations_are_checked_before_anything_is_sent,
            settings_are_checked_before_anything_is_sent,
            settings_that_a_server_ignores_are_refused,
            an_owner_of_another_client_is_refused,
            a_name_that_holds_something_else_is_a_conflict;
        conflicts:
            rw13_kinds_under_one_name_are_told_apart_by_their_data,
            rw13_kinds_under_one_name_are_told_apart_in_one_client,
            kind_beside_one_that_is_waited_for_is_refused,
            every_kind_refuses_bad_input_before_anything_is_sent;
        leases:
            an_extended_lease_lasts_from_the_extension_on,
            a_lost_lock_cannot_be_extended,
            a_renewed_lock_keeps_its_extension_as_a_reserve;
        tickets:
            a_ticket_moves_a_hold_once,
            only_the_record_of_the_adopter_lists_the_hold,
            an_adoption_has_a_greater_fencing_token,
            a_failover_that_lost_an_adoption_leaves_one_believer,
            a_waiter_gets_the_lock_after_the_adopter,
            an_adopted_lock_is_renewed_or_ends_with_its_fixed_lease,
            a_ticket_that_nobody_adopts_expires,
            only_a_plain_hold_of_count_one_moves,
            a_lost_hold_gives_no_ticket_and_a_removed_one_no_guard,
            a_ticket_needs_the_prefix_of_its_client,
            a_dropped_offer_and_a_dropped_adoption_release_the_lock;
        loss:
            the_longest_hold_ends_even_a_renewed_one,
            a_fixed_lease_is_lost_when_it_runs_out,
            a_detached_lock_runs_out_by_itself,
            a_deleted_key_is_a_loss_that_renewal_finds,
            every_end_cancels_the_token_with_its_reason,
            work_is_not_polled_again_after_the_loss,
            with_releases_and_carries_the_value,
            work_that_is_over_leaves_no_waker_with_the_hold,
            a_lock_is_renewed_for_as_long_as_it_is_held;
        shutdown:
            a_shutdown_lets_guards_end_and_tells_everybody_else,
            lock_of_a_guard_that_outlives_a_shutdown_stays_taken_while_the_guard_exists,
            lock_of_a_guard_that_is_never_dropped_is_free_a_lease_after_a_shutdown,
            work_and_threads_and_leaders_end_in_order_through_a_shutdown,
            last_handle_that_is_dropped_in_a_runtime_waits_for_its_releases,
            thread_that_drops_a_guard_of_a_client_that_lives_waits_for_the_release,
            a_dropped_guard_is_released_in_the_background;
        admin:
            an_inspection_names_the_holder,
            grant_of_permits_has_missing_ones_asked_for_at_once,
            grant_tells_the_earlier_holder_of_its_loss_at_once,
            a_force_release_wakes_waiters_and_is_a_loss,
            threads_without_a_runtime_take_the_same_locks,
            a_blocking_call_panics_in_an_async_context;
        field_bugs:
            l5_a_renewal_never_outlives_its_release,
            l7_a_renewal_does_not_bring_a_lock_back,
            l8_a_lease_of_nothing_is_refused,
            l9_the_longest_durations_do_not_overflow,
            l10_a_second_release_does_not_touch_the_next_owner,
            rw6_a_short_reentry_does_not_shorten_the_lease,
            rw14_names_of_every_sort;
        callbacks:
            a_back_off_may_use_its_client,
            a_waker_may_use_its_client;
        fair_queue:
            everybody_comes_in_the_order_of_arrival,
            f5_who_has_left_does_not_stand_in_the_queue,
            grants_carry_tokens_that_grow;
        waiting_given_up:
            a_place_is_gone_when_its_wait_has_run_out,
            a_dropped_acquire_does_not_refuse_the_next_try_of_its_client,
            a_writer_that_gave_up_keeps_no_reader_out;
        release_lingering:
            next_acquire_of_the_client_costs_no_command,
            lock_that_lingers_is_released_when_its_time_is_over,
            another_client_gets_a_lingering_lock_at_once,
            guard_of_a_lock_that_is_wanted_is_released_for_good,
            force_release_and_the_end_of_the_client_end_lingering,
            own_attempts_do_not_end_lingering,
            released_lock_that_lingers_is_not_busy_for_its_own_client,
            longest_lingering_is_a_third_of_the_lease;
        at_least:
            released_lock_stays_busy_for_its_least_time,
            waiter_gets_a_kept_lock_when_its_time_is_over,
            only_a_release_of_what_was_held_keeps_a_lock_busy,
            least_times_are_checked_before_anything_is_sent,
            job_runs_once_in_a_period,
            function_with_the_attribute_runs_once_in_a_period,
            jobs_whose_names_join_alike_run_apart,
            job_that_panics_is_not_done_and_runs_elsewhere,
            tick_between_two_periods_is_refused;
        leader:
            one_candidate_leads_and_the_next_takes_over,
            the_leader_among_all_candidates_can_be_watched,
            lost_leadership_stops_the_work_and_is_won_again,
            resignation_ends_a_wait_and_a_work_that_does_not_end,
            candidates_in_one_owners_scope_do_not_lead_at_once,
            candidate_that_resigns_is_seen_to_lead_until_it_has_ended,
            candidate_that_lost_the_leadership_follows_the_next_leader,
            work_that_panics_ends_the_term_and_another_candidate_leads,
            work_that_ends_within_its_grace_returns_its_value,
            campaign_that_cannot_succeed_ends_with_the_reason;
        waiting_handed_on:
            release_hands_the_field_on_to_the_next_task,
            a_crowd_costs_less_than_one_command_each,
            another_client_gets_in_between_hand_overs;
        read_write:
            readers_and_writers_exclude_each_other,
            rw4_an_owner_leaves_the_halves_in_any_order,
            a_writer_does_not_sleep_for_a_reader_that_has_left,
            rw11_a_reader_does_not_become_a_writer;
        spin_and_simple:
            a_spin_lock_is_entered_again,
            a_simple_lock_is_its_id;
        groups:
            m1_m2_busy_member_leaves_none_held_and_one_wait_is_for_all,
            fair_lock_is_a_member_of_a_group,
            work_under_a_group_ends_with_a_member_and_releases_all,
            members_left_of_a_lost_group_are_free_once_its_guard_ends,
            m3_members_in_another_order_do_not_deadlock,
            stripes_are_taken_together_in_any_order;
        stress:
            lock, fair, fenced_fair, fenced, spin, simple, read_write, multi, striped, quorum;
        semaphores:
            s4_a_number_that_is_there_is_not_set_again,
            s5_of_two_waiters_for_two_permits_each_one_proceeds,
            s6_permits_that_are_added_wake_who_waits,
            permits_without_a_hold_are_drained_and_given_back,
            an_owner_takes_permits_of_its_own_each_time,
            s14_many_tasks_never_have_too_many_permits,
            what_cannot_be_a_number_of_permits_is_refused;
        semaphores_leased:
            s1_what_a_crashed_holder_had_is_back_after_its_lease,
            s4_a_capacity_that_is_there_is_not_set_again,
            s5_of_two_waiters_for_two_permits_one_proceeds,
            s6_permits_that_are_added_wake_who_waits,
            s7_each_of_several_permits_is_given_back_on_its_own,
            s11_more_than_there_are_in_all_is_refused_at_once,
            too_many_permits_are_refused_before_sending,
            s12_permits_are_renewed_and_a_loss_is_told,
            s13_the_shortest_and_the_longest_lease,
            s14_contention_loses_no_permit,
            a_capacity_changes_under_its_holders,
            what_cannot_be_a_number_of_permits_is_refused;
        latch:
            a_latch_is_set_counted_down_and_open,
            c2_all_who_wait_are_woken,
            a_wait_that_is_dropped_leaves_nothing,
            what_cannot_be_a_count_is_refused;
        fencing:
            a_stale_token_neither_reads_nor_writes,
            the_same_token_of_another_holder_is_refused;
        admin_inspection:
            a_fair_lock_tells_its_holder_and_its_queue,
            a_read_write_lock_tells_both_halves,
            a_simple_lock_tells_its_id,
            an_entry_that_no_lock_writes_is_named_and_can_be_removed,
            a_client_that_announces_itself_can_be_found;
        telemetry:
            a_connection_and_what_its_locks_do_are_logged;
        health:
            a_ping_returns_after_a_round_trip;
        admin_search:
            a_search_is_a_stream_that_reads_on_demand,
            every_kind_that_is_held_is_found_once,
            a_name_of_any_kind_tells_its_holds_and_what_is_wrong,
            names_are_found_by_pattern_and_prefix_as_they_are,
            free_fair_lock_is_found_by_its_queue,
            names_that_are_not_wanted_are_left_out,
            what_is_no_lock_is_left_out_or_named,
            threads_find_locks_too;
        admin_deadlocks:
            two_three_and_five_clients_in_a_circle_are_found,
            scope_that_waits_for_the_one_around_it_is_found,
            waits_that_end_are_no_deadlock,
            client_says_what_it_holds_and_waits_for,
            deadlock_of_a_client_with_many_older_holds_is_found,
            circle_over_a_reader_a_fair_and_a_fenced_lock_is_found;
        blocking:
            threads_take_locks_of_every_kind,
            thread_whose_lock_was_lost_is_told_and_keeps_its_value,
            threads_take_permits_and_wait_at_latches,
            an_owner_of_threads_takes_its_locks_again;
    }
    recordable {
        unknown_outcome_copies:
            lock, fair, fenced_fair, fenced, spin, simple, read_write, multi, striped, semaphore, permits;
    }
    breakable {
        health:
            a_ping_fails_while_the_server_is_down;
        leases:
            a_lock_is_at_risk_before_an_outage_loses_it;
        semaphores:
            s3_a_lost_reply_leaves_no_permit_behind,
            a_lost_reply_to_an_operation_counts_it_once,
            an_operation_on_a_server_that_is_down_is_an_error_in_time;
        semaphores_leased:
            s3_a_lost_reply_leaves_no_permit_behind;
        latch:
            c1_a_lost_reply_to_a_count_counts_once;
        fencing:
            a_lost_reply_to_a_write_writes_once;
        unknown_outcome:
            l1_a_lost_reply_to_an_acquire_counts_once,
            l2_a_lost_reply_to_a_release_is_a_release,
            a_lost_reply_to_a_renewal_does_not_lose_the_lock,
            a_release_that_comes_too_late_is_a_loss_and_touches_nobody;
        tickets:
            a_lost_reply_leaves_no_holder_and_no_ticket;
        unknown_outcome_copies:
            a_first_grant_after_its_time_is_refused;
        waiting_unpolled:
            a_first_attempt_in_flight_same_client,
            a_first_attempt_in_flight_another_client,
            a_place_in_the_line_same_client,
            a_place_in_the_line_another_client,
            a_parked_acquire_does_not_stand_in_the_way_of_tries;
        shutdown:
            a_shutdown_names_what_it_could_not_release;
        outage:
            l11_down_server_is_an_error_in_time_and_can_be_cancelled,
            known_outage_fails_whoever_does_not_wait_for_its_end,
            l3_a_lost_notice_costs_one_sleep,
            after_a_reconnect_waiters_try_again;
        leader:
            campaign_outlives_an_outage,
            candidate_whose_work_has_ended_leads_no_more_while_it_releases;
    }
    servers {
        drop:
            lock, fair, fenced_fair, fenced, spin, simple, read_write, multi, striped, quorum, semaphore, permits;
        admin_search:
            search_among_many_keys_is_many_small_commands;
        outage:
            a_connect_that_is_dropped_closes_its_connections;
        release_order:
            changes_of_a_count_are_sent_one_at_a_time,
            a_release_is_not_sent_while_its_acquire_is_unsettled;
    }
    inside {
        health:
            a_client_that_never_connected_is_not_ready;
        callbacks:
            a_recorder_of_metrics_may_use_the_client,
            a_subscriber_of_traces_may_use_the_client;
        semaphores:
            a_release_that_is_repeated_late_gives_nothing_back_twice;
        fencing:
            sql_refuses_stale_tokens_on_read_and_write,
            sql_loses_no_update_to_holders_at_once;
        admin_inspection:
            a_client_that_did_a_job_can_be_found_after_its_end,
            a_record_is_written_again_before_it_ends;
        admin_deadlocks:
            record_is_written_at_most_once_a_second;
        admin_search:
            search_has_few_looks_under_way_at_once,
            a_page_that_was_dropped_is_asked_for_again,
            a_lock_that_goes_before_the_look_is_not_found,
            a_search_ends_with_an_error_of_the_server;
        drop:
            l4_every_future_dropped_at_every_point_leaves_nothing,
            l4_fair, l4_fenced_fair, l4_fenced, l4_spin, l4_simple, l4_read_write, l4_multi, l4_striped, l4_quorum, l4_semaphore,
            l4_permits, l4_latch,
            l4_what_cannot_be_reached_is_free_after_one_lease;
        unknown_outcome_copies:
            copies_whose_replies_are_seen_change_nothing_either,
            // A server that was not needed for a quorum may answer when the copies are on their way; here it cannot.
            quorum;
        waiting_unpolled:
            the_delay_is_bounded_exactly;
        fair_queue:
            f1_dead_waiters_cost_a_window_in_all,
            f2_a_dead_holder_costs_its_lease,
            f4_deadlines_do_not_drift,
            f6_a_queue_that_lost_one_of_its_keys_mends_itself,
            f8_a_release_after_the_end_is_a_loss_and_wakes_the_head,
            f10_a_try_overtakes_nobody_who_lives,
            f11_what_the_dead_leave_expires,
            f12_waiting_costs_the_same_for_few_and_many,
            a_place_is_given_up_however_long_it_was_held,
            silence_beyond_the_window_costs_the_place,
            an_outage_does_not_strand_anybody,
            a_front_that_is_not_polled_passes_its_turn,
            the_lock_is_never_free_while_somebody_waits;
        read_write:
            rw1_a_dead_reader_is_gone_by_its_own_lease,
            rw5_leases_do_not_add_up,
            rw8_every_reader_of_a_client_is_renewed,
            rw9_a_release_after_the_end_is_a_loss,
            rw10_readers_come_in_together,
            rw12_a_writer_that_is_preferred_gets_in,
            a_writer_looks_again_when_the_first_lease_may_be_over,
            a_reader_is_let_in_beside_its_own_owner;
        spin_and_simple:
            a_spin_lock_asks_as_often_as_it_is_told,
            a_simple_lock_is_renewed_where_that_is_asked_for;
        groups:
            a_multi_lock_ends_with_its_first_member,
            a_member_is_given_back_while_another_is_busy,
            contended_multi_lock_is_as_fast_as_two_locks_in_order,
            try_for_several_is_no_grant_when_a_member_is_lost,
            a_quorum_is_held_without_a_minority,
            a_quorum_counts_the_servers_and_not_the_clients,
            a_quorum_waits_for_the_answers_that_can_make_it_whole,
            work_that_outlives_its_group_is_lost,
            members_that_ran_out_meanwhile_are_acquired_anew,
            quorum_holder_without_a_minority_sleeps_until_its_loss,
            rivals_for_a_quorum_all_get_it,
            rivals_exclude_each_other_whatever_is_lost,
            quorum_locks_count_granted_servers_only,
            members_of_a_multi_lock_are_granted_by_their_servers,
            owner_that_holds_without_the_server_is_no_member;
        at_least:
            job_runs_only_by_grant_of_its_server,
            done_job_runs_again_after_the_time_for_which_it_is_kept;
        leader:
            leader_whose_lease_is_over_says_so_without_being_polled;
        outage:
            waiter_that_sleeps_learns_that_its_server_is_gone;
        callbacks_that_panic:
            a_recorder_that_panics_does_not_end_the_renewals,
            a_recorder_that_panics_leaves_no_lock,
            a_subscriber_that_panics_leaves_no_lock,
            a_waker_that_panics_does_not_end_the_renewals;
        telemetry:
            every_metric_is_counted_under_its_name,
            every_series_is_there_before_its_first_event,
            every_span_and_warning_is_traced,
            names_in_events_are_escaped_in_one_form,
            times_in_events_are_whole_milliseconds,
            refused_renewals_are_told_once_for_each_hold,
            a_loss_and_a_span_name_the_hold_that_they_are_about;
        durability:
            a_shortfall_is_taken_back_and_said,
            the_error_waits_for_the_undo_but_not_for_ever,
            only_acknowledged_renewals_move_the_deadline,
            a_reentry_that_falls_short_is_taken_back_alone,
            a_downgrade_keeps_the_condition,
            a_call_that_waits_for_replicas_is_left_in_peace,
            nobody_elses_renewal_waits_for_replicas,
            conditions_are_checked_before_anything_is_sent;
        time:
            a_manual_clock_moves_leases_renewals_and_waits,
            clients_take_the_clock_of_their_engine;
    }
}

/// tokio's clock can only be paused on a runtime of one thread, which the fixture's is not.
mod embedded_paused {
    #[test]
    fn thousand_ticks_of_five_processes_run_once_each() {
        crate::suite::at_least::thousand_ticks_of_five_processes_run_once_each();
    }

    #[test]
    fn five_candidates_have_one_leader_and_soon_a_next_one() {
        crate::suite::leader::five_candidates_have_one_leader_and_soon_a_next_one();
    }

    #[test]
    fn tokios_paused_clock_moves_them_too() {
        crate::suite::time::tokios_paused_clock_moves_them_too();
    }

    #[test]
    fn next_in_a_fair_queue_has_the_lock_after_one_round_trip() {
        crate::suite::acquire::next_in_a_fair_queue_has_the_lock_after_one_round_trip();
    }

    #[test]
    fn tries_of_shared_locks_take_one_round_trip_together() {
        crate::suite::acquire::tries_of_shared_locks_take_one_round_trip_together();
    }

    #[test]
    fn another_client_gets_in_within_a_second_behind_a_slow_network() {
        crate::suite::release_lingering::another_client_gets_in_within_a_second_behind_a_slow_network();
    }

    #[test]
    fn a_hundred_readers_get_in_within_a_few_round_trips() {
        crate::suite::acquire::a_hundred_readers_get_in_within_a_few_round_trips();
    }

    #[test]
    fn every_reader_whose_wait_ends_makes_a_last_attempt() {
        crate::suite::acquire::every_reader_whose_wait_ends_makes_a_last_attempt();
    }
}
