// Package headlesscrm is the Go client of the Headless CRM API.
//
// Methods have the names of operations and return the data of the envelope. Every failure is an
// *Error.
package headlesscrm

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config holds the address of the API and the credential.
type Config struct {
	// BaseURL is the address of the API, without /v1.
	BaseURL string
	// APIKey is svc_live_… or svc_test_….
	APIKey string
	// Token is an OAuth access token or a session token. It is ignored if APIKey is set.
	Token string
	// TokenSource returns the token before each attempt, so that it can be renewed. It replaces Token.
	TokenSource func(ctx context.Context) (string, error)
	// Timeout limits each attempt. Default: 30 s.
	Timeout time.Duration
	// Retries is the number of retries after a failed attempt. Default: 3; negative: none.
	Retries int
	// LongestWait is the maximum Retry-After that the client honors. Default: 60 s.
	LongestWait time.Duration
	// HTTPClient sends the requests. Default: one that never follows redirects, because the API has
	// none and the credential must not be sent to another host.
	HTTPClient *http.Client
}

// Client is safe for concurrent use.
type Client struct {
	config Config
}

// New returns a client. Public operations need no credential.
func New(config Config) *Client {
	if config.Timeout == 0 {
		config.Timeout = 30 * time.Second
	}
	if config.Retries == 0 {
		config.Retries = 3
	}
	if config.LongestWait == 0 {
		config.LongestWait = time.Minute
	}
	if config.HTTPClient == nil {
		config.HTTPClient = &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	config.BaseURL = strings.TrimRight(config.BaseURL, "/")
	return &Client{config: config}
}

// Option changes a single call.
type Option func(*call)

// WithIdempotencyKey replaces the random Idempotency-Key of an operation that takes one.
func WithIdempotencyKey(key string) Option { return func(c *call) { c.idempotencyKey = key } }

// WithIfMatch changes a record only if it still has this ETag. Otherwise the call fails with
// CONFLICT and the reason version_mismatch.
func WithIfMatch(etag string) Option { return WithHeader("If-Match", etag) }

// WithHeader adds a header.
func WithHeader(name, value string) Option { return func(c *call) { c.header.Set(name, value) } }

// WithTimeout limits each attempt.
func WithTimeout(timeout time.Duration) Option { return func(c *call) { c.timeout = timeout } }

// WithRetries sets the number of retries after a failed attempt.
func WithRetries(retries int) Option { return func(c *call) { c.retries = retries } }

// WithResponse passes a function the status and headers of every response, including those of
// failed attempts.
func WithResponse(see func(*http.Response)) Option { return func(c *call) { c.onResponse = see } }

// call is one call with all its attempts.
type call struct {
	method         string
	path           string
	query          url.Values
	header         http.Header
	body           []byte
	takesKey       bool
	idempotencyKey string
	timeout        time.Duration
	retries        int
	longestWait    time.Duration
	onResponse     func(*http.Response)
	problem        error
}

func (c *Client) newCall(method, path string) *call {
	return &call{
		method: method, path: path, query: url.Values{}, header: http.Header{},
		timeout: c.config.Timeout, retries: c.config.Retries, longestWait: c.config.LongestWait,
	}
}

// segment encodes a path parameter. A value that would change the path fails the call.
func (c *call) segment(value string) *call {
	if value == "" || value == "." || value == ".." {
		c.problem = fmt.Errorf("headlesscrm: a path parameter must not be %q", value)
	}
	c.path = strings.Replace(c.path, "{}", url.PathEscape(value), 1)
	return c
}

func (c *call) json(body interface{}) *call {
	encoded, err := json.Marshal(body)
	if err != nil {
		c.problem = err
	}
	// A nil body is omitted.
	if string(encoded) != "null" {
		c.body = encoded
		c.header.Set("Content-Type", "application/json")
	}
	return c
}

// File is an upload.
type File struct {
	Name string
	// ContentType defaults to application/octet-stream.
	ContentType string
	Content     []byte
}

// form encodes the same file to the same bytes, as a repeated Idempotency-Key requires.
func (c *call) form(file File) *call {
	boundary := fmt.Sprintf("headless-crm-%x", sha256.Sum256(file.Content))[:45]
	name := strings.NewReplacer("\\", "\\\\", `"`, "%22", "\r", "%0D", "\n", "%0A").Replace(file.Name)
	if file.ContentType == "" {
		file.ContentType = "application/octet-stream"
	}
	var body bytes.Buffer
	fmt.Fprintf(&body, "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"%s\"\r\n", boundary, name)
	fmt.Fprintf(&body, "Content-Type: %s\r\n\r\n%s\r\n--%s--\r\n", file.ContentType, file.Content, boundary)
	c.body = body.Bytes()
	c.header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
	return c
}

// send makes attempts until one succeeds, fails permanently, or is the last one.
func (c *Client) send(ctx context.Context, call *call, options []Option) ([]byte, error) {
	for _, option := range options {
		option(call)
	}
	if call.problem != nil {
		return nil, call.problem
	}
	if call.takesKey {
		// All attempts send the same key, so that the server does the work once.
		if call.idempotencyKey == "" {
			call.idempotencyKey = newKey()
		}
		call.header.Set("Idempotency-Key", call.idempotencyKey)
	}
	for failures := 0; ; failures++ {
		answer, err := c.attempt(ctx, call)
		if err == nil {
			return answer, nil
		}
		failure, isFailure := err.(*Error)
		repeatable := call.method == http.MethodGet || call.takesKey
		if !isFailure || failures >= call.retries || !failure.mayPass(repeatable) || failure.RetryAfter > call.longestWait {
			return nil, err
		}
		if err := sleep(ctx, failure.wait(failures)); err != nil {
			return nil, err
		}
	}
}

func (c *Client) attempt(ctx context.Context, call *call) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, call.timeout)
	defer cancel()
	address := c.config.BaseURL + call.path
	if len(call.query) > 0 {
		address += "?" + call.query.Encode()
	}
	request, err := http.NewRequestWithContext(limited, call.method, address, bytes.NewReader(call.body))
	if err != nil {
		return nil, err
	}
	request.Header = call.header.Clone()
	request.Header.Set("User-Agent", userAgent)
	if err := c.authenticate(ctx, request); err != nil {
		return nil, err
	}
	response, err := c.config.HTTPClient.Do(request)
	if err != nil {
		return nil, withoutAnswer(ctx, limited, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, withoutAnswer(ctx, limited, err)
	}
	if call.onResponse != nil {
		call.onResponse(response)
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return nil, newError(response, answer)
	}
	return answer, nil
}

func (c *Client) authenticate(ctx context.Context, request *http.Request) error {
	token := c.config.Token
	if c.config.APIKey == "" && c.config.TokenSource != nil {
		var err error
		if token, err = c.config.TokenSource(ctx); err != nil {
			return err
		}
	}
	if c.config.APIKey != "" {
		request.Header.Set("x-api-key", c.config.APIKey)
	} else if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// receive sends a call and decodes the data of the envelope, or the whole body without one.
func receive[Answer any](ctx context.Context, c *Client, call *call, options []Option) (*Answer, error) {
	body, err := c.send(ctx, call, options)
	if err != nil {
		return nil, err
	}
	var envelope struct {
		Success *bool           `json:"success"`
		Data    json.RawMessage `json:"data"`
	}
	// A body that is not an object has no envelope. It is decoded as a whole below.
	if json.Unmarshal(body, &envelope) == nil && envelope.Success != nil && envelope.Data != nil {
		body = envelope.Data
	}
	answer := new(Answer)
	if err := json.Unmarshal(body, answer); err != nil {
		return nil, &Error{Code: "UNREADABLE_ANSWER", Message: err.Error(), cause: err}
	}
	return answer, nil
}

func newKey() string {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		panic(err) // The operating system has no randomness.
	}
	return fmt.Sprintf("%x", random)
}

func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Page is the part of a page that an iterator needs.
type page[Item any] struct {
	items  []Item
	cursor string
}

// Iterator walks over all items of a list: for it.Next(ctx) { it.Value() }, then it.Err().
type Iterator[Item any] struct {
	fetch  func(ctx context.Context, cursor string) (page[Item], error)
	items  []Item
	cursor string
	value  Item
	done   bool
	err    error
}

// Next moves to the next item. It returns false at the end and after a failure.
func (it *Iterator[Item]) Next(ctx context.Context) bool {
	for len(it.items) == 0 {
		if it.done {
			return false
		}
		fetched, err := it.fetch(ctx, it.cursor)
		it.err = err
		it.items, it.cursor = fetched.items, fetched.cursor
		it.done = err != nil || fetched.cursor == ""
	}
	it.value, it.items = it.items[0], it.items[1:]
	return true
}

// Value returns the item that Next moved to.
func (it *Iterator[Item]) Value() Item { return it.value }

// Err returns the failure that ended the iteration, or nil.
func (it *Iterator[Item]) Err() error { return it.err }

const (
	feedWait  = 30 * time.Second
	feedPause = time.Second
)

// newFeed iterates over the pages of an endless list. It waits for news, and retries through
// outages.
func newFeed[Page any](
	cursor string, wait int64, next func(*Page) string,
	fetch func(ctx context.Context, cursor string, wait int64, options []Option) (*Page, error),
) *Iterator[*Page] {
	if wait == 0 {
		wait = int64(feedWait / time.Second)
	}
	patient := []Option{
		WithTimeout(time.Duration(wait)*time.Second + 15*time.Second),
		WithRetries(math.MaxInt),
		func(c *call) { c.longestWait = math.MaxInt64 },
	}
	return &Iterator[*Page]{cursor: cursor, fetch: func(ctx context.Context, from string) (page[*Page], error) {
		for {
			asked := time.Now()
			held := wait
			if from == "" || from == "now" {
				// The first call returns immediately, so that the caller can store where the feed starts.
				held = 0
			}
			fetched, err := fetch(ctx, from, held, patient)
			if err != nil {
				return page[*Page]{}, err
			}
			if next(fetched) != from {
				return page[*Page]{items: []*Page{fetched}, cursor: next(fetched)}, nil
			}
			if time.Since(asked) < feedPause {
				if err := sleep(ctx, feedPause); err != nil {
					return page[*Page]{}, err
				}
			}
		}
	}}
}
