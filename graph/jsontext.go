package graph

import (
	"bytes"
	"context"
	"strings"
	"unicode/utf8"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// Unpaired surrogates and broken UTF-8 are refused before anything decodes them: Go's decoder would put U+FFFD
// in their place, and two different texts would become one.
var (
	errUTF8      = &Error{Code: CodeBadRequest, Message: "The request is not valid UTF-8. Nothing was executed."}
	errSurrogate = &Error{Code: CodeBadRequest, Message: `The request has an unpaired surrogate (such as \ud800) in a string. Nothing was executed; send text as valid Unicode.`}
)

// CheckJSONText refuses a JSON document whose strings could not be decoded without loss: invalid UTF-8 anywhere,
// or an escaped surrogate without its other half. It makes one linear pass, allocates nothing, and leaves
// syntax errors to the decoder. Transports call it on a body or frame before they decode it. Errors are *Error.
func CheckJSONText(body []byte) error {
	if !utf8.Valid(body) {
		return errUTF8
	}
	if i := bytes.IndexByte(body, '\\'); i >= 0 {
		return checkEscapes(body[i:])
	}
	return nil
}

// checkEscapes needs no state of strings: outside of them JSON has no backslash, so one found there is a syntax
// error anyway.
func checkEscapes[T ~string | ~[]byte](s T) error {
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		i++ // the escaped character: a second backslash begins nothing
		if !surrogate(s, i) {
			continue
		}
		// s[i:i+5] is uDXXX: high halves are D8–DB, and only the low half may follow.
		if !high(s[i+2]) || i+6 >= len(s) || s[i+5] != '\\' || !surrogate(s, i+6) || high(s[i+8]) {
			return errSurrogate
		}
		i += 10
	}
	return nil
}

// surrogate says whether s[i:] is uD8XX to uDFXX.
func surrogate[T ~string | ~[]byte](s T, i int) bool {
	return i+4 < len(s) && s[i] == 'u' && s[i+1]|0x20 == 'd' &&
		(s[i+2] >= '8' && s[i+2] <= '9' || s[i+2]|0x20 >= 'a' && s[i+2]|0x20 <= 'f') &&
		hex(s[i+3]) && hex(s[i+4])
}

// high tells the halves apart by their second digit: 8, 9, A, B or C to F.
func high(c byte) bool { return c <= '9' || c|0x20 <= 'b' }

func hex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

// UnicodeDocuments refuses documents with unpaired surrogates in their strings: gqlgen's parser replaces them
// as Go's JSON decoder does.
type UnicodeDocuments struct{}

var _ interface {
	graphql.HandlerExtension
	graphql.OperationParameterMutator
} = UnicodeDocuments{}

// ExtensionName names it for gqlgen.
func (UnicodeDocuments) ExtensionName() string { return "UnicodeDocuments" }

// Validate has nothing to say.
func (UnicodeDocuments) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationParameters only looks.
func (UnicodeDocuments) MutateOperationParameters(_ context.Context, request *graphql.RawParams) *gqlerror.Error {
	if err := CheckDocument(request.Query); err != nil {
		return gqlerror.Wrap(err)
	}
	return nil
}

// CheckDocument refuses a GraphQL document with invalid UTF-8 or an escaped surrogate without its other half.
// In comments and block strings, where a backslash means itself, it refuses them too: nobody writes that, and
// telling them apart takes a lexer. Errors are *Error.
func CheckDocument(document string) error {
	if !utf8.ValidString(document) {
		return errUTF8
	}
	if i := strings.IndexByte(document, '\\'); i >= 0 {
		return checkEscapes(document[i:])
	}
	return nil
}
