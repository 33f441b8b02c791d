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
	// mostBusy is how often a call is tried where the service is busy: some ten seconds,
	// after which somebody should be told.
	mostBusy = 20
	// mostBroken is how often where the way to the service breaks.
	mostBroken = 3
)

// pauses are those between the attempts of a call.
var pauses = backoff.Doubling{First: 25 * time.Millisecond, Most: 500 * time.Millisecond}

// busyCodes are what DynamoDB answers to who should come back later.
var busyCodes = []string{
	"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "TransactionInProgressException",
	// In a cancelled transaction:
	"TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError",
}

// patience repeats what is worth it, with jitter: what is throttled or met another
// transaction for long, what broke on the way a few times. The SDK gives all
// attempts of a transaction the same token, so that one whose answer was lost answers as
// done.
type patience struct{ aws.NopRetryer }

// MaxAttempts is without a limit; RetryDelay has those.
func (patience) MaxAttempts() int { return 0 }

// IsErrorRetryable implements aws.Retryer.
func (patience) IsErrorRetryable(err error) bool { return busy(err) || broken(err) }

// RetryDelay implements aws.Retryer.
func (patience) RetryDelay(attempt int, err error) (time.Duration, error) {
	most := mostBroken
	if busy(err) {
		most = mostBusy
	}
	if attempt >= most {
		return 0, err
	}
	return pauses.Pause(attempt), nil
}

// busy: the service answered that it is.
func busy(err error) bool {
	if cancelled := (*types.TransactionCanceledException)(nil); errors.As(err, &cancelled) {
		return alreadyThere(err) == nil && slices.ContainsFunc(cancelled.CancellationReasons, func(r types.CancellationReason) bool {
			return slices.Contains(busyCodes, code(r))
		})
	}
	answer := smithy.APIError(nil)
	return errors.As(err, &answer) && slices.Contains(busyCodes, answer.ErrorCode())
}

// broken: there was no answer of the service, or not all of it. Silence is not worth a
// second time that long.
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

// errBusy: the service was busy for too long.
var errBusy = errors.New("busy")
