//! The attribute `once`: parser and expansion.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use std::time::Duration;
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned as _;
use syn::{Error, Expr, ExprLit, FnArg, Ident, ItemFn, Lit, LitStr, Pat, ReturnType, Signature, Token, Type};

/// Expands the function, whose body then runs once for each period. After an error, also emits the unchanged function,
/// to prevent further errors at its callers.
pub(crate) fn expand(arguments: TokenStream, function: TokenStream) -> TokenStream {
    expanded(arguments, function.clone()).unwrap_or_else(|error| {
        let error = error.into_compile_error();
        quote! { #error #function }
    })
}

fn expanded(arguments: TokenStream, function: TokenStream) -> Result<TokenStream, Error> {
    let arguments: Arguments = syn::parse2(arguments)?;
    let mut function: ItemFn = syn::parse2(function)
        .map_err(|error| Error::new(error.span(), format!("`once` needs an `async fn` with a body: {error}")))?;
    if function.sig.asyncness.is_none() {
        return Err(Error::new_spanned(function.sig.fn_token, "`once` needs an `async fn`: add `async`"));
    }
    let client = match arguments.client {
        Some(client) => client.into_token_stream(),
        None => client_among(&function.sig)?,
    };
    let returned = match &function.sig.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, ty) if matches!(**ty, Type::ImplTrait(_)) => {
            return Err(Error::new_spanned(ty, "`once` needs a return type with a name, not `impl Trait`"));
        }
        ReturnType::Type(_, ty) => ty.to_token_stream(),
    };
    let run = if is_named(&function.sig.output, "Result") { quote!(try_run) } else { quote!(run) };
    let (name, period) = (arguments.name, arguments.period);
    function.sig.output = syn::parse2(quote! {
        -> ::core::result::Result<::leasehold::once::Occurrence<#returned>, ::leasehold::WithError<#returned>>
    })?;
    // The hygienic name is invisible to the body.
    let job = Ident::new("job", Span::mixed_site());
    let client = quote_spanned!(client.span()=> &#client);
    let block = &function.block;
    *function.block = syn::parse2(quote! {{
        let #job = ::leasehold::Client::once(#client, #name, #period);
        #job.#run(async move |_: &::leasehold::Guard| -> #returned #block).await
    }})?;
    Ok(function.into_token_stream())
}

/// The arguments of the attribute.
struct Arguments {
    name: Expr,
    /// An expression of the type `Period`.
    period: TokenStream,
    client: Option<Expr>,
}

/// The keys, in the order of the documentation.
const KEYS: [&str; 5] = ["name", "every", "offset", "period", "client"];

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Self, Error> {
        let mut values: [Option<Expr>; KEYS.len()] = Default::default();
        while !input.is_empty() {
            if !input.peek(Ident::peek_any) {
                return Err(input.error("expected a key and a value, such as `name = \"report\"`"));
            }
            let key = input.call(Ident::parse_any)?;
            let Some(at) = KEYS.iter().position(|known| key == known) else {
                let known = KEYS.map(|key| format!("`{key}`")).join(", ");
                return Err(Error::new_spanned(&key, format!("unknown key `{key}`: the keys are {known}")));
            };
            input.parse::<Token![=]>()?;
            if values[at].replace(input.parse()?).is_some() {
                return Err(Error::new_spanned(&key, format!("`{key}` is set twice")));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        let [name, every, offset, period, client] = values;
        let missing = |what: &str| Error::new(Span::call_site(), format!("`once` needs {what}"));
        let name = name.ok_or_else(|| missing("the name of the job: add `name = \"report\"`"))?;
        if let Some(literal) = string(&name) {
            let text = literal.value();
            if text.is_empty() || text.trim() != text {
                return Err(Error::new_spanned(literal, "the name is empty, or begins or ends with white space"));
            }
        }
        let period = match (every, offset, period) {
            (Some(every), offset, None) => schedule(&every, offset.as_ref())?,
            (None, None, Some(period)) => period.into_token_stream(),
            (None, Some(offset), _) => {
                return Err(Error::new_spanned(offset, "`offset` needs `every`; a `period` has its own offset"));
            }
            (Some(every), _, Some(_)) => {
                return Err(Error::new_spanned(every, "`every` and `period` exclude each other: remove one"));
            }
            (None, None, None) => {
                return Err(missing("a schedule: add `every = \"1d\"`, or `period = Period::at(scheduled)`"));
            }
        };
        Ok(Self { name, period, client })
    }
}

/// Returns the period of a schedule.
fn schedule(every: &Expr, offset: Option<&Expr>) -> Result<TokenStream, Error> {
    let interval = duration(every)?;
    if interval < Duration::from_millis(1) {
        return Err(Error::new_spanned(every, "`every` is below 1ms"));
    }
    let period = quote!(::leasehold::once::Period::every);
    let millis = |time: Duration| {
        let (seconds, nanos) = (time.as_secs(), time.subsec_nanos());
        quote!(::core::time::Duration::new(#seconds, #nanos))
    };
    let every = millis(interval);
    let Some(offset) = offset else { return Ok(quote!(#period(#every))) };
    let phase = duration(offset)?;
    if phase >= interval {
        return Err(Error::new_spanned(offset, "`offset` is not below `every`"));
    }
    let phase = millis(phase);
    Ok(quote!(#period(#every).offset(#phase)))
}

/// Parses a string such as `1h 30m`.
fn duration(value: &Expr) -> Result<Duration, Error> {
    const FORM: &str = "write a string such as \"1d\", \"90s\" or \"1h 30m\"";
    let Some(literal) = string(value) else {
        return Err(Error::new_spanned(value, format!("this is not a duration: {FORM}")));
    };
    let text = literal.value();
    humantime::parse_duration(&text)
        .map_err(|why| Error::new_spanned(literal, format!("{text:?} is not a duration ({why}): {FORM}")))
}

fn string(value: &Expr) -> Option<&LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(literal), .. }) => Some(literal),
        Expr::Group(group) => string(&group.expr),
        _ => None,
    }
}

/// Returns the first argument whose type is `Client` or `&Client`.
fn client_among(signature: &Signature) -> Result<TokenStream, Error> {
    let mut typed = signature.inputs.iter().filter_map(|argument| match argument {
        FnArg::Typed(argument) => Some(argument),
        FnArg::Receiver(_) => None,
    });
    let client = typed.find_map(|argument| match &*argument.pat {
        Pat::Ident(pattern) if last_name(&argument.ty).is_some_and(|name| name == "Client") => Some(&pattern.ident),
        _ => None,
    });
    client.map(ToTokens::to_token_stream).ok_or_else(|| {
        let why = "no argument is a client: add `client: &Client`, or name a client, such as `client = self.client`";
        Error::new_spanned(&signature.ident, why)
    })
}

fn is_named(output: &ReturnType, name: &str) -> bool {
    matches!(output, ReturnType::Type(_, ty) if last_name(ty).is_some_and(|last| last == name))
}

/// Returns the last name in the path of a type, behind references.
fn last_name(ty: &Type) -> Option<&Ident> {
    match ty {
        Type::Reference(reference) => last_name(&reference.elem),
        Type::Group(group) => last_name(&group.elem),
        Type::Paren(paren) => last_name(&paren.elem),
        Type::Path(path) => path.path.segments.last().map(|segment| &segment.ident),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = "async fn report(client: &Client) -> u32 { 7 }";

    /// Returns the message of the first error.
    #[track_caller]
    fn refused(arguments: &str, function: &str) -> String {
        let parse = |code: &str| code.parse::<TokenStream>().expect("tokens");
        expanded(parse(arguments), parse(function)).expect_err("an error").to_string()
    }

    #[track_caller]
    fn accepted(arguments: &str, function: &str) -> String {
        let parse = |code: &str| code.parse::<TokenStream>().expect("tokens");
        let code = expanded(parse(arguments), parse(function)).expect("a function");
        syn::parse2::<ItemFn>(code.clone()).expect("one function");
        code.to_string()
    }

    #[test]
    fn errors_name_the_key_and_the_remedy() {
        let errors = [
            (r#"every = "1d""#, "needs the name of the job: add `name"),
            (r#"name = "report""#, "needs a schedule: add `every = \"1d\"`"),
            ("", "needs the name"),
            (r#""report", every = "1d""#, "expected a key and a value, such as `name"),
            (r#"name = "", every = "1d""#, "name is empty"),
            (r#"name = " report", every = "1d""#, "white space"),
            (r#"name = "report", every = "daily""#, "\"daily\" is not a duration"),
            (r#"name = "report", every = 5"#, "write a string such as \"1d\""),
            (r#"name = "report", every = "0s""#, "below 1ms"),
            (r#"name = "report", every = "1d", offset = "1d""#, "`offset` is not below `every`"),
            (r#"name = "report", offset = "1h""#, "`offset` needs `every`"),
            (r#"name = "report", period = Period::at(t), offset = "1h""#, "`offset` needs `every`"),
            (r#"name = "report", every = "1d", period = Period::at(t)"#, "exclude each other"),
            (r#"name = "report", interval = "1d""#, "unknown key `interval`: the keys are `name`, `every`"),
            (r#"name = "report", every = "1d", every = "2d""#, "`every` is set twice"),
        ];
        for (arguments, expected) in errors {
            let error = refused(arguments, JOB);
            assert!(error.contains(expected), "#[once({arguments})]: {error}");
        }
    }

    #[test]
    fn functions_that_cannot_run_once_are_refused() {
        let errors = [
            ("fn report(client: &Client) {}", "add `async`"),
            ("struct Report;", "needs an `async fn` with a body"),
            ("async fn report(client: &Client);", "needs an `async fn` with a body"),
            ("async fn report() {}", "no argument is a client: add `client: &Client`"),
            ("async fn report(pages: u32, &self) {}", "needs an `async fn`"),
            ("async fn report(&self) {}", "`client = self.client`"),
            ("async fn report(client: &Client) -> impl Sized {}", "not `impl Trait`"),
        ];
        for (function, expected) in errors {
            let error = refused(r#"name = "report", every = "1d""#, function);
            assert!(error.contains(expected), "{function}: {error}");
        }
    }

    #[test]
    fn schedule_of_the_attribute_is_that_of_the_period() {
        let code = accepted(r#"name = "report", every = "1d", offset = "12h""#, JOB).replace(' ', "");
        let period = "::leasehold::once::Period::every(::core::time::Duration::new(86400u64,0u32))\
                      .offset(::core::time::Duration::new(43200u64,0u32))";
        assert!(code.contains(period), "{code}");
    }

    #[test]
    fn only_a_result_can_leave_the_job_undone() {
        for (returned, expected) in [
            ("", ".run("),
            ("-> u32", ".run("),
            ("-> Option<u32>", ".run("),
            ("-> Result<u32, String>", ".try_run("),
            ("-> std::io::Result<()>", ".try_run("),
        ] {
            let function = format!("async fn report(client: Client) {returned} {{ todo!() }}");
            let code = accepted(r#"name = "report", every = "1d","#, &function).replace(' ', "");
            assert!(code.contains(expected), "{returned}: {code}");
        }
    }

    #[test]
    fn function_with_an_error_stays_for_its_callers() {
        let code = expand(TokenStream::new(), JOB.parse().expect("tokens")).to_string();
        assert!(code.contains("compile_error") && code.contains("fn report"), "{code}");
    }
}
