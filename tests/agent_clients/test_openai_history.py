"""The newest official client does what tests/test_history.py has the one of build/venv do: conversations as clients send
them back."""

from test_history import (test_a_parsed_answer_goes_back, test_a_parsed_call_goes_back,  # noqa: F401
                          test_a_parsed_response_goes_back, test_instructions_go_with_a_developer_item)
