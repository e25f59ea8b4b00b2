// SPDX-License-Identifier: Apache-2.0
//
// table.h - the tests that every kind of store passes. The state of each is a struct bench, whose
// store is empty and opened by its `open`.
#pragma once

#include "unit/store/bench.h"

#define STORE_TABLE(TEST)                                                                      \
    TEST(an_object_is_created_once_and_read_back),                                             \
        TEST(objects_are_there_when_the_store_is_opened_again),                                \
        TEST(pieces_of_any_size_make_one_object), TEST(an_upload_given_up_leaves_nothing),     \
        TEST(pieces_are_read_in_any_order), TEST(what_is_not_there_is_told_piece_by_piece),    \
        TEST(requests_that_ended_do_nothing), TEST(sizes_of_many_objects_are_told_at_once),    \
        TEST(many_objects_are_deleted_at_once), TEST(lists_are_in_order_and_begin_where_told), \
        TEST(a_list_may_change_what_it_lists), TEST(folders_come_and_go_under_many_threads),   \
        TEST(of_clients_that_create_one_name_exactly_one_wins),                                \
        TEST(two_clients_see_each_others_changes), TEST(an_object_has_an_age),                 \
        TEST(a_list_tells_of_one_name_whether_it_is_there)

void an_object_is_created_once_and_read_back(void **state);
void objects_are_there_when_the_store_is_opened_again(void **state);
void pieces_of_any_size_make_one_object(void **state);
void an_upload_given_up_leaves_nothing(void **state);
void pieces_are_read_in_any_order(void **state);
void what_is_not_there_is_told_piece_by_piece(void **state);
void requests_that_ended_do_nothing(void **state);
void sizes_of_many_objects_are_told_at_once(void **state);
void many_objects_are_deleted_at_once(void **state);
void lists_are_in_order_and_begin_where_told(void **state);
void a_list_may_change_what_it_lists(void **state);
void folders_come_and_go_under_many_threads(void **state);
void of_clients_that_create_one_name_exactly_one_wins(void **state);
void two_clients_see_each_others_changes(void **state);
void an_object_has_an_age(void **state);
void a_list_tells_of_one_name_whether_it_is_there(void **state);
