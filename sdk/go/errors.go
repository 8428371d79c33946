package headlesscrm

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"net/http"
	"strconv"
	"time"
)

// Error is a failed call. Branch on Code, never on Message.
type Error struct {
	// Code is a code of the API, or CONNECTION_FAILED, TIMED_OUT, UNREADABLE_ANSWER.
	Code    string
	Message string
	// Status is the HTTP status; 0 without a response.
	Status int
	// Details are facts about the failure, by code.
	Details map[string]any
	// Fields lists every problem with the request. It is empty for other failures.
	Fields []FieldProblem
	// RequestID identifies the call when you ask for help.
	RequestID string
	// RetryAfter is the time after which the same call may succeed.
	RetryAfter time.Duration
	cause      error
}

// FieldProblem is one thing to change in what you sent.
type FieldProblem struct {
	Field   string `json:"field"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// Unwrap returns the underlying error, such as a refused connection.
func (e *Error) Unwrap() error { return e.cause }

func newError(response *http.Response, body []byte) *Error {
	failure := &Error{
		Code:       "UNREADABLE_ANSWER",
		Message:    fmt.Sprintf("The response with status %d is not from the API.", response.StatusCode),
		Status:     response.StatusCode,
		RequestID:  response.Header.Get("X-Request-Id"),
		RetryAfter: retryAfter(response.Header.Get("Retry-After")),
	}
	var answer struct {
		Error       json.RawMessage `json:"error"`
		Description string          `json:"error_description"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return failure
	}
	var decoded struct {
		Code    string          `json:"code"`
		Message string          `json:"message"`
		Details json.RawMessage `json:"details"`
	}
	var word string
	if json.Unmarshal(answer.Error, &decoded) == nil && decoded.Code != "" {
		failure.Code, failure.Message = decoded.Code, decoded.Message
		if decoded.Details != nil {
			failure.readDetails(decoded.Details)
		}
	} else if json.Unmarshal(answer.Error, &word) == nil && word != "" {
		// Sign-in errors have the format of RFC 6749.
		failure.Code, failure.Message = word, answer.Description
	}
	return failure
}

// readDetails ignores details of an unknown form. Code and message are more important.
func (e *Error) readDetails(details json.RawMessage) {
	var known struct {
		Fields []FieldProblem `json:"fields"`
	}
	if json.Unmarshal(details, &e.Details) == nil && json.Unmarshal(details, &known) == nil {
		e.Fields = known.Fields
	}
}

// withoutAnswer distinguishes a call that the caller ended from a temporary failure.
func withoutAnswer(ctx, limited context.Context, cause error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if limited.Err() != nil {
		return &Error{Code: "TIMED_OUT", Message: "The request timed out.", cause: cause}
	}
	return &Error{Code: "CONNECTION_FAILED", Message: cause.Error(), cause: cause}
}

// retryAfter parses the header. Proxies may send a date instead of seconds.
func retryAfter(header string) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(header); err == nil && time.Until(date) > 0 {
		return time.Until(date)
	}
	return 0
}

func (e *Error) mayPass(repeatable bool) bool {
	switch {
	case e.Code == "QUOTA_EXCEEDED":
		// Only a larger plan or the next month helps.
		return false
	case e.Status == http.StatusTooManyRequests, e.Code == "QUOTA_UNAVAILABLE", e.Code == "IDEMPOTENCY_IN_PROGRESS":
		// Rejected before anything was done.
		return true
	}
	return repeatable && (e.Status == 0 || e.Status >= 500)
}

// wait returns the requested wait, or a backoff that doubles from half a second to eight.
func (e *Error) wait(failures int) time.Duration {
	if e.RetryAfter > 0 {
		return e.RetryAfter + time.Duration(rand.Int63n(int64(time.Second/4)))
	}
	if failures > 4 {
		failures = 4
	}
	longest := time.Duration(1<<failures) * time.Second / 2
	return longest/2 + time.Duration(rand.Int63n(int64(longest/2)))
}
