package dynamostore

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"poold/internal/backoff"
)

const (
	// mostBusy limits the attempts of a call while DynamoDB is busy. These attempts take about ten
	// seconds in total.
	mostBusy = 20
	// mostBroken limits the attempts of a call if its connections break.
	mostBroken = 3
)

// pauses are the pauses between two attempts of a call.
var pauses = backoff.Doubling{First: 25 * time.Millisecond, Most: 500 * time.Millisecond}

// busyCodes are the error codes after which a call is repeated.
var busyCodes = []string{
	"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "TransactionInProgressException",
	// The following codes are reasons why DynamoDB cancelled a transaction.
	"TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError",
}

// retryer limits the attempts of a call. The limit is mostBusy while DynamoDB throttles the call, or
// while the call conflicts with another transaction. The limit is mostBroken if connections break. The
// SDK's standard retryer has one limit for both cases, pauses for up to a second at first, and ignores
// the reasons of cancelled transactions. All attempts of a transaction have the same request token from
// the SDK. If the response to a successful attempt is lost, DynamoDB therefore reports success for the
// next attempt and does not apply the transaction again.
type retryer struct{ aws.NopRetryer }

// MaxAttempts implements aws.Retryer. It returns 0, which means no limit, because RetryDelay enforces the limits.
func (retryer) MaxAttempts() int { return 0 }

// IsErrorRetryable implements aws.Retryer.
func (retryer) IsErrorRetryable(err error) bool { return busy(err) || broken(err) }

// RetryDelay implements aws.Retryer.
func (retryer) RetryDelay(attempt int, err error) (time.Duration, error) {
	most := mostBroken
	if busy(err) {
		most = mostBusy
	}
	if attempt >= most {
		return 0, err
	}
	return pauses.Pause(attempt), nil
}

// busy reports whether an error means that DynamoDB is busy.
func busy(err error) bool {
	if cancelled := (*types.TransactionCanceledException)(nil); errors.As(err, &cancelled) {
		return alreadyThere(err) == nil && slices.ContainsFunc(cancelled.CancellationReasons, func(r types.CancellationReason) bool {
			return slices.Contains(busyCodes, code(r))
		})
	}
	answer := smithy.APIError(nil)
	return errors.As(err, &answer) && slices.Contains(busyCodes, answer.ErrorCode())
}

// broken reports whether the response is missing, incomplete or a server error. It returns false for a
// timeout, because another attempt could take as long.
func broken(err error) bool {
	send, read, silence := (*smithyhttp.RequestSendError)(nil), (*smithy.DeserializationError)(nil), net.Error(nil)
	switch answer := (*smithyhttp.ResponseError)(nil); {
	case errors.As(err, &silence) && silence.Timeout():
		return false
	case errors.As(err, &send), errors.As(err, &read):
		return true
	default:
		return errors.As(err, &answer) && answer.HTTPStatusCode() >= http.StatusInternalServerError
	}
}

// errBusy reports that DynamoDB did not finish a batch within mostBusy attempts.
var errBusy = errors.New("busy")
