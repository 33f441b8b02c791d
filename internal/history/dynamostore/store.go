package dynamostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"

	"poold/internal/backoff"
	"poold/internal/history"
	"poold/internal/targets"
)

const (
	// callLimit limits one attempt of a call. It is long, because a slow response is better than a failed call.
	callLimit = 5 * time.Second
	// mostAttempts limits the attempts of a call. The pauses between them take about three seconds in total; a Sender
	// then waits longer.
	mostAttempts = 10
	// activeFor is the time from an order's submit until its item expires.
	activeFor = 10 * time.Minute
)

// pauses are the pauses between two attempts of a call. The SDK's own pauses begin with a second, or with no pause at
// all.
var pauses = backoff.Doubling{First: 25 * time.Millisecond, Most: 500 * time.Millisecond}

// Table implements history.Sink in one table. The figures of a day by type and by target never expire.
type Table struct {
	client    *dynamodb.Client
	transport *http.Transport
	table     string
	keep      map[history.RowKind]time.Duration // a kind that is absent is not kept
}

// Open reads AWS's configuration from the environment and the shared files. It does not connect. The caller must close
// the store. If the present file has no audit, hand-outs that the store still has from an earlier file are kept as long
// as orders.
func Open(ctx context.Context, set targets.History) (*Table, error) {
	c, err := config.LoadDefaultConfig(ctx, config.WithRegion(set.Region))
	if err != nil {
		if missing := (config.SharedConfigProfileNotExistError{}); errors.As(err, &missing) {
			return nil, errors.New("dynamodb: the AWS profile " + missing.Profile + " does not exist")
		}
		return nil, errors.New("dynamodb: AWS's configuration, in the environment or in its shared files, cannot be read")
	}
	if c.Region == "" && set.Endpoint == "" {
		return nil, errors.New("dynamodb: no region is known: set the region of the history, or AWS_REGION")
	}
	c.Region = cmp.Or(c.Region, "us-east-1") // of an emulator; the SDK needs one
	s := &Table{table: set.Table, keep: map[history.RowKind]time.Duration{history.KindOrder: set.Keep}}
	s.transport = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: callLimit,
		IdleConnTimeout: time.Minute}
	s.keep[history.KindHandout] = cmp.Or(set.Audit, set.Keep)
	s.transport.MaxIdleConnsPerHost = mostConcurrent
	if set.ActiveItems {
		s.keep[history.KindActive] = activeFor
	}
	s.client = dynamodb.NewFromConfig(c, func(d *dynamodb.Options) {
		d.HTTPClient = &http.Client{Transport: s.transport, Timeout: callLimit, CheckRedirect: refuseRedirect}
		d.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
			r.MaxAttempts, r.RateLimiter = mostAttempts, ratelimit.None
			r.Backoff = retry.BackoffDelayerFunc(func(n int, _ error) (time.Duration, error) { return pauses.Pause(n), nil })
			r.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(retryable)}, r.Retryables...)
		})
		d.Logger = logging.Nop{}
		if set.Endpoint != "" {
			d.BaseEndpoint = aws.String(set.Endpoint)
		}
	})
	return s, nil
}

// Close closes the connections. No call of another method may be running.
func (s *Table) Close() { s.transport.CloseIdleConnections() }

// refuseRedirect follows no redirect, because a signed request is valid for one host only.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// retryable adds two rules to the SDK's: a cancelled transaction is repeated if DynamoDB was busy, and a call that
// timed out is not repeated, because another attempt could take as long. All attempts of a transaction have the same
// token from the SDK, so that DynamoDB applies the transaction only once, even if a response was lost.
func retryable(err error) aws.Ternary {
	if timedOut(err) || busy(err) {
		return aws.BoolTernary(!timedOut(err))
	}
	return aws.UnknownTernary
}

func timedOut(err error) bool {
	return retry.IsErrorTimeouts(retry.DefaultTimeouts).IsErrorTimeout(err).Bool()
}

// busy reports whether an error means that DynamoDB throttles the call, or that the call conflicts with another call.
func busy(err error) bool {
	reasons := reasonsOf(err)
	return retry.IsErrorThrottles(retry.DefaultThrottles).IsErrorThrottle(err).Bool() ||
		!slices.ContainsFunc(reasons, exists) &&
			slices.ContainsFunc(reasons, func(r types.CancellationReason) bool {
				return slices.Contains([]string{"TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError"},
					aws.ToString(r.Code))
			})
}

// reasonsOf returns why a transaction was cancelled, with one reason for each item. It returns nil for an error of
// another kind.
func reasonsOf(err error) []types.CancellationReason {
	cancelled := &types.TransactionCanceledException{}
	errors.As(err, &cancelled)
	return cancelled.CancellationReasons
}

// exists reports whether a transaction was cancelled because an item that it should put exists already.
func exists(r types.CancellationReason) bool { return aws.ToString(r.Code) == "ConditionalCheckFailed" }

// downError adds the operation to an error and makes it a history.ErrDown, or the error of ctx if ctx has ended. It
// omits the SDK's text, which contains addresses and account names.
func (s *Table) downError(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %s", doing, cmp.Or(ctx.Err(), history.ErrDown), s.reason(err))
}

func (s *Table) reason(err error) string {
	answer, unknown := smithy.APIError(&smithy.GenericAPIError{}), (*net.DNSError)(nil)
	errors.As(err, &answer)
	switch code := answer.ErrorCode(); {
	case strings.Contains(err.Error(), "get credentials"): // the rest names the files that the SDK tried
		return "no AWS credentials are known, neither from the environment nor from the shared files or a role"
	case busy(err):
		return "DynamoDB is too busy"
	case code == "ResourceNotFoundException":
		return "the table " + s.table + " does not exist: poold history init makes it"
	case code == "ValidationException":
		return "DynamoDB refuses the call (" + code + "): poold history init compares the table"
	case code != "":
		return "DynamoDB answers " + code
	case errors.As(err, &unknown):
		return "the host of DynamoDB is not known"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case timedOut(err), errors.Is(err, context.Canceled):
		return "no answer in time"
	}
	return "the connection broke or could not be made"
}
