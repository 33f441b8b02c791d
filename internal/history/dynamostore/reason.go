package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"poold/internal/history"
)

var errNoCredentials = errors.New("no AWS credentials are known, neither from the environment nor from the shared files or a role")

// refusedCodes are the error codes with which DynamoDB rejects invalid credentials.
var refusedCodes = []string{
	"UnrecognizedClientException", "InvalidSignatureException", "IncompleteSignatureException", "InvalidClientTokenId",
	"MissingAuthenticationTokenException", "ExpiredTokenException", "ExpiredToken",
}

// downError adds the operation to an error and makes it a history.ErrDown. If ctx has ended,
// downError returns the error of ctx instead. It omits the SDK's text, which contains addresses and
// account names.
func (s *Store) downError(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("%s: %w: %s", doing, ended, s.reason(err))
	}
	return fmt.Errorf("%s: %w: %s", doing, history.ErrDown, s.reason(err))
}

func (s *Store) reason(err error) string {
	missing, answer, unknown := (*types.ResourceNotFoundException)(nil), smithy.APIError(nil), (*net.DNSError)(nil)
	cancelled, waited, silence := (*types.TransactionCanceledException)(nil), (*aws.RequestCanceledError)(nil), net.Error(nil)
	switch {
	case errors.Is(err, errNoCredentials):
		return errNoCredentials.Error()
	case errors.As(err, &missing):
		return "the table " + s.table + " does not exist: poold history init makes it"
	case busy(err), errors.Is(err, errBusy), errors.As(err, &waited):
		return "DynamoDB is too busy"
	case errors.As(err, &cancelled):
		return "DynamoDB cancels the transaction (" + codes(cancelled) + ")"
	case errors.As(err, &answer):
		return codeText(answer.ErrorCode())
	case errors.As(err, &unknown):
		return "the host of DynamoDB is not known"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &silence) && silence.Timeout(), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "no answer in time"
	default:
		return "the connection broke or could not be made"
	}
}

// codes lists the different reason codes of a cancelled transaction.
func codes(cancelled *types.TransactionCanceledException) string {
	var found []string
	for _, r := range cancelled.CancellationReasons {
		if c := code(r); c != "None" && !slices.Contains(found, c) {
			found = append(found, c)
		}
	}
	return strings.Join(found, ", ")
}

func codeText(code string) string {
	switch {
	case slices.Contains(refusedCodes, code):
		return "DynamoDB refuses the credentials (" + code + ")"
	case code == "AccessDeniedException":
		return "the credentials do not allow it (" + code + ")"
	case code == "ValidationException":
		return "DynamoDB refuses the call (" + code + "): poold history init names the differences of the table"
	default:
		return "DynamoDB answers " + code
	}
}
