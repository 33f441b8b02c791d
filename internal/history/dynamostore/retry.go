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
	// mostBusy limits the attempts of a call while the service is busy: about ten seconds, after which the outage is
	// reported.
	mostBusy = 20
	// mostBroken limits the attempts of a call while connections break.
	mostBroken = 3
)

// pauses are the pauses between the attempts of a call.
var pauses = backoff.Doubling{First: 25 * time.Millisecond, Most: 500 * time.Millisecond}

// busyCodes are the error codes of calls to repeat later.
var busyCodes = []string{
	"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "TransactionInProgressException",
	// In a cancelled transaction:
	"TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError",
}

// retryer repeats a call up to mostBusy times if it is throttled or conflicts with another transaction, and up to
// mostBroken times if its connection breaks. The SDK's standard retryer has one limit for both, starts at a second,
// and does not look into cancelled transactions. The SDK gives all attempts of a transaction one token, so that
// DynamoDB answers an attempt after a lost answer as done.
type retryer struct{ aws.NopRetryer }

// MaxAttempts implements aws.Retryer without a limit; RetryDelay has the limits.
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

// busy reports whether the service answered that it is busy.
func busy(err error) bool {
	if cancelled := (*types.TransactionCanceledException)(nil); errors.As(err, &cancelled) {
		return alreadyThere(err) == nil && slices.ContainsFunc(cancelled.CancellationReasons, func(r types.CancellationReason) bool {
			return slices.Contains(busyCodes, code(r))
		})
	}
	answer := smithy.APIError(nil)
	return errors.As(err, &answer) && slices.Contains(busyCodes, answer.ErrorCode())
}

// broken reports whether the answer is missing, cut short or a server error. It excludes timeouts, because a repeated
// call would take as long again.
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

// errBusy is the error of a batch that the service did not finish within mostBusy attempts.
var errBusy = errors.New("busy")
