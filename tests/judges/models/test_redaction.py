"""Values that are replaced before a prompt leaves the process, and values that are not."""

from types import MappingProxyType

import pytest

from judges.models.base import ChatMessage
from judges.models.redaction import ALL_KINDS, Redactor, is_private

REDACTOR = Redactor()
PEM_LINE = "MIIEpAIBAAKCAQEAx4UbaDzY5xjW6hc9jwN0mX33XpTDVW5WqHp5AKaRbtAC3DqX"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{PEM_LINE}\nabc+/==\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVPmB92K27uhbUJU1p1r"


def redact(text: str) -> str:
    return REDACTOR.redact([text]).texts[0]


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("Write to Ann.Lee+news@mail.example.co.uk.", "Write to [EMAIL_1]."),
        ("почта: иван@почта.рф", "почта: [EMAIL_1]"),
        ("<ann@example.com>", "<[EMAIL_1]>"),
        ("ann＠example．com", "[EMAIL_1]"),
        ('"ann.lee"@example.com, "Ann Lee"@example.com', "[EMAIL_1], [EMAIL_2]"),
        ("ann at mail dot example dot co dot uk", "[EMAIL_1]"),
        ("Call +1 (212) 555-0123 now", "Call [PHONE_1] now"),
        ("212-555-0123", "[PHONE_1]"),
        ("+44 20 7946 0958", "[PHONE_1]"),
        ("020 7946 0958 or 07700 900123", "[PHONE_1] or [PHONE_2]"),
        ("+49 1512 3456789.", "[PHONE_1]."),
        ("06 12 34 56 78", "[PHONE_1]"),
        ("Телефон: 8 (495) 123-45-67", "Телефон: [PHONE_1]"),
        ("8-800-555-35-35", "[PHONE_1]"),
        ("89161234567", "[PHONE_1]"),
        ("тел. 123-45-67, 765-43-21", "тел. [PHONE_1], [PHONE_2]"),
        ("(495) 123-45-67", "[PHONE_1]"),
        ("(+7 916 123-45-67)", "([PHONE_1])"),
        ("+7(916)123-45-67", "[PHONE_1]"),
        ("wa.me/79161234567", "wa.me/[PHONE_1]"),
        ("电话+8613912345678号", "电话[PHONE_1]号"),
        ("4111 1111 1111 1111, 12/27, 123", "[CARD_1], 12/27, 123"),
        ("3782-822463-10005", "[CARD_1]"),
        ("Карта 2200 1234 5678 9019", "Карта [CARD_1]"),
        ("4️⃣111111111111111", "[CARD_1]"),
        ("４１１１１１１１１１１１１１１１", "[CARD_1]"),
        ("٤١١١١١١١١١١١١١١١", "[CARD_1]"),
        ("4111\u200b1111\u200b1111\u200b1111", "[CARD_1]"),
        ("4111\u00a01111\u00a01111\u00a01111", "[CARD_1]"),
        ("IBAN DE89 3704 0044 0532 0130 00.", "IBAN [IBAN_1]."),
        ("gb82west12345698765432", "[IBAN_1]"),
        ("from 203.0.113.7:8080", "from [IP_1]:8080"),
        ("10.1.2.3/24", "[IP_1]/24"),
        ("[2001:db8::8a2e:370:7334]:443", "[[IP_1]]:443"),
        ("::ffff:192.0.2.1", "[IP_1]"),
        ("SSN 219-09-9999", "SSN [SSN_1]"),
        ("social security number 219099999", "social security number [SSN_1]"),
        ("СНИЛС 112-233-445 95", "СНИЛС [SNILS_1]"),
        ("СНИЛС: 11223344595", "СНИЛС: [SNILS_1]"),
        ("ИНН 7707083893", "ИНН [INN_1]"),
        ("500100732259", "[INN_1]"),
        ("ИНН/КПП 7707083893/773601001", "ИНН/КПП [INN_1]/773601001"),
        ("NINO AB123456C, AB 12 34 56 D", "NINO [NINO_1], [NINO_2]"),
        ("DNI 12345678Z, 12.345.678-Z", "DNI [DNI_1], [DNI_1]"),
        ("NIE X1234567L", "NIE [DNI_1]"),
        ("PESEL 44051401359", "PESEL [PESEL_1]"),
        ("IdNr. 86 095 742 719", "IdNr. [STEUER_ID_1]"),
        ("OPENAI_API_KEY=sk-proj-Abc123def456Ghi789jkl", "OPENAI_API_KEY=[SECRET_1]"),
        ("AKIAIOSFODNN7EXAMPLE", "[SECRET_1]"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AWS_SECRET_ACCESS_KEY=[SECRET_1]"),
        ("gho_16C7e42F292c6912E7710c838347Ae178B4a", "[SECRET_1]"),
        ("xoxb-123456789012-abcdefABCDEF", "[SECRET_1]"),
        ("Authorization: Bearer a1B2c3D4e5F6g7H8i9", "Authorization: Bearer [SECRET_1]"),
        ("Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "Authorization: Basic [SECRET_1]"),
        (f"cookie {JWT};", "cookie [SECRET_1];"),
        (f"x\n{PEM}\ny", "x\n[SECRET_1]\ny"),
        (f"-----BEGIN PRIVATE KEY-----\n{PEM_LINE}\nMIIE", "[SECRET_1]\nMIIE"),
        (f"-----BEGIN PRIVATE KEY-----\n{PEM_LINE} and then they run", "[SECRET_1] and then they run"),
        (PEM.replace("\n", "\\n"), "[SECRET_1]"),
        (
            PEM.replace("KEY-----\nM", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B2C\n\nM"),
            "[SECRET_1]",
        ),
        ("https://admin:s3cret@db.example.com/x", "https://admin:[SECRET_1]@db.example.com/x"),
        ("The access key is 9f86d081884c7d659a2feaa0c55ad015", "The access key is [SECRET_1]"),
        ("токен доступа: 9f86d081884c7d659a2feaa0c55ad015", "токен доступа: [SECRET_1]"),
        ("API key: 550e8400-e29b-41d4-a716-446655440000", "API key: [SECRET_1]"),
        ("password: correct-horse-battery-staple-42", "password: [SECRET_1]"),
        ("https://u:correct-horse-battery-staple@x.org/", "https://u:[SECRET_1]@x.org/"),
        ("password: x7Kd9-Qm2Vt-8Zr4w-Lp6Ns-3Hb5j-Yc1Gf-9Td2k-Wq8Ru", "password: [SECRET_1]"),
        ('"password": "hunter22"', '"password": "[SECRET_1]"'),
        ("Cookie: sessionid=38afes7a8; theme=dark", "Cookie: sessionid=[SECRET_1]; theme=dark"),
        ("/page?PHPSESSID=7f3a9b2c1d&lang=en", "/page?PHPSESSID=[SECRET_1]&lang=en"),
        ('session_id = "abc123def"', 'session_id = "[SECRET_1]"'),
        (f"session={'a1b2c3d4' * 20}", "session=[SECRET_1]"),
        ("Пароль — Лето2024!", "Пароль — [SECRET_1]"),
        ("пароль: 12345678.", "пароль: [SECRET_1]."),
        ('{"question": "my card\\n4111111111111111"}', '{"question": "my card\\n[CARD_1]"}'),
    ],
)
def test_personal_data_and_secrets_are_replaced(text: str, redacted: str) -> None:
    assert redact(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "Order 4539578763621486 was sent.",  # a valid card by its digits
        "Заказ № 4539578763621486",
        "order #1234567890123456",
        "4111 1111 1111 1112",  # the check digit is wrong
        "DE88 3704 0044 0532 0130 00",
        "1 299 000 ₽, 12 000 000 000 руб.",
        "$1,299,000.00 or 1.299.000,00 €",
        "+10 000 000 000 рублей, +250 000 000",
        "2024-01-15 10:30:45, 15.01.2024, 01/15/2024, 20240115T103045Z",
        "с 01.01.2023 по 31.12.2024",
        "1700000000 and 1700000000123",
        "ISBN 978-5-17-118366-1, ISBN 9785171183661, 0-306-40615-2, ISSN 2049-3630",
        "doi:10.1038/s41586-021-03819-2, arXiv:2005.11401",
        "EAN 4006381333931",
        "Chrome 120.0.6099.109, v1.2.3.4, version 10.0.0.1, версия 2.5.1.3",
        "1.2.3.4 Scope of the policy",
        "127.0.0.1, 0.0.0.0, 255.255.255.0, ::1",
        "256.1.1.1, 1.2.3, 1.2.3.4.5, 01.02.03.04",
        "std::vector<int> a::b, 10:30:45, Foo::Bar",
        "00:1A:2B:3C:4D:5E",
        "550e8400-e29b-41d4-a716-446655440000",
        "123e4567-e89b-12d3-a456-500100732259",  # it ends in a valid INN
        "primary key 550e8400-e29b-41d4-a716-446655440000",
        "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "π = 3.14159265358979, 0.4111111111111111",
        "ИНН 7707083894",
        "7707083893",  # an organisation's number without the word
        "СНИЛС 112-233-445 96",
        "SSN 000-12-3456, 666-12-3456, 900-12-3456",
        "123456789",
        "PESEL 44051401358",
        "12345678A",
        "BG123456C",
        "(2019) 123-456, pp. 123-145",
        "call center handled 1 234 567 requests; iPhone 1234567",
        "Mobile users: 1 234 567",
        "§ 10.2.3.4, section 1.2.3.4",
        "icon@2x.png, @username, a @ b, git@github.com:org/repo.git, pkg@1.2.3",
        "sk-learn-contrib-is-a-name, sk-short, task-oriented-dialogue-systems",
        "The password must be at least 8 characters. Password: required.",
        "password reset link, password_min_length=12",
        "tokenizer 9f86d081884c7d659a2feaa0c55ad015",
        "The key point is internationalization-and-localization",
        "key: models/llama-3.1-8b-instruct-q4.gguf",
        "session: workshop2024, session=2023-2024, session=morning-of-day-2, sessionid=a1b2c3",
        "max_tokens=4096, tokens per minute: 1000000",
        "Keyboard, monkey, turkey: 9f86d081884c7d659a2feaa0c55ad015",
        "Ключевые слова: retrieval-augmented-generation-2024",
        "Bearer authentication-is-required-here",
        "x²+y² = 10², № 15, 5–10 %",
        "table: 12 | 15 | 2019 2020 2021 2022 2023",
        "+7, +1, +44",
        "Code: 3f2a1b\n### question 3f2a1b\nHow many?\n### end 3f2a1b",
        "Code: 123456\n### question 123456\nHow many?\n### end 123456",
        "",
    ],
)
def test_other_numbers_and_words_stay(text: str) -> None:
    assert REDACTOR.redact([text]).texts[0] is text


KEY_BEGIN = "-----BEGIN PRIVATE KEY-----"
HARM = "You should kill yourself tonight with forty pills of paracetamol"
HYPHENATED = HARM.replace(" ", "-")
SHORT_WORDS = "KillYourselfNowTakeThirtyPillsOfParacetamol2NightAndDie4Real"
LABELLED_HARM = [
    f"password: {HYPHENATED}-2",
    f"mysql://u:{HYPHENATED}@db/x",
    "пароль: тебе-надо-покончить-с-собой-сегодня-же-вечером-2",
    "token: YouShouldKillYourselfTonight42WithFortyPills7OfParacetamol",
    f"{KEY_BEGIN}\nYouShouldKillYourselfTonight42WithFortyPills7OfParacetamol",
    f"token: {SHORT_WORDS}",
    f"sk-{SHORT_WORDS}",
    "ASIAKILLYOURSELFNOWX",
    f"{KEY_BEGIN}\n{SHORT_WORDS}\n-----END PRIVATE KEY-----",
]


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (
            f"{KEY_BEGIN}\nComment: {HARM}\n{PEM_LINE}\n-----END PRIVATE KEY-----",
            f"{KEY_BEGIN}\nComment: {HARM}\n[SECRET_1]",
        ),
        (f"{KEY_BEGIN}\nVersion: {HARM}\n{PEM_LINE}", f"{KEY_BEGIN}\nVersion: {HARM}\n[SECRET_1]"),
        (f"{KEY_BEGIN}\nProc-Type: {HARM}\n{PEM_LINE}", f"{KEY_BEGIN}\nProc-Type: {HARM}\n[SECRET_1]"),
        (
            f"{KEY_BEGIN}\nDEK-Info: KILL-YOURSELF,0A1B2C\n{PEM_LINE}",
            f"{KEY_BEGIN}\nDEK-Info: KILL-YOURSELF,0A1B2C\n[SECRET_1]",
        ),
        (
            f"{KEY_BEGIN}\nProc-Type: 4,ENCRYPTED {HARM}\n{PEM_LINE}",
            f"{KEY_BEGIN}\nProc-Type: 4,ENCRYPTED {HARM}\n[SECRET_1]",
        ),
        (f'See "{HARM[:50]}"@a.co', f'See "{HARM[:50]}"@a.co'),
        ("meet me at kill dot yourself dot com", "meet me at kill dot yourself dot com"),
        ("me at kill dot yourself dot tonight dot now dot com", "me at kill dot yourself dot tonight dot now dot com"),
        *((text, text) for text in LABELLED_HARM),
    ],
)
def test_words_cannot_hide_in_a_value(text: str, redacted: str) -> None:
    """An answer must not hide harmful words from the judge by disguising them as a secret."""
    assert redact(text) == redacted


def test_any_number_of_headers_of_a_key_stays_readable() -> None:
    headers = f"{KEY_BEGIN}\n" + f"Comment: {HARM}\n" * 20
    assert redact(headers + PEM_LINE) == f"{headers}[SECRET_1]"


LONG_PEM = PEM.replace(PEM_LINE, f"{PEM_LINE}\n+{PEM_LINE[:0:-1]}\n{PEM_LINE[32:]}{PEM_LINE[:32]}")
ENCRYPTED_PEM = LONG_PEM.replace("KEY-----\nM", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B2C\n\nM")


@pytest.mark.parametrize("key", [PEM, LONG_PEM, ENCRYPTED_PEM], ids=["short", "long", "encrypted"])
@pytest.mark.parametrize(
    ("prefix", "suffix"),
    [
        ("> ", ""),
        (">> ", ""),
        ("# ", ""),
        (" * ", ""),
        ("+", ""),
        ("| ", " |"),
        ('    "', '\\n"'),
        ('"', '\\n" +'),
        ("+ '", "\\n'"),
        ("'", "',"),
        ('\\"', '\\\\n\\"'),
        ("- ", ""),
        ("'", "' ."),
        ("", "\\"),
    ],
)
def test_a_key_is_redacted_whole_with_the_same_marks_around_every_line(key: str, prefix: str, suffix: str) -> None:
    text = "\n".join(f"{prefix}{line}{suffix}" for line in key.split("\n"))
    assert redact(text) == f"{prefix}[SECRET_1]{suffix}"


def test_a_key_in_a_padded_table_is_redacted_whole() -> None:
    text = "\n".join(f"| {line:<64} |" for line in LONG_PEM.split("\n"))
    assert redact(text).startswith("| [SECRET_1] ")
    assert redact(text).count("\n") == 0


@pytest.mark.parametrize("key", [PEM, LONG_PEM], ids=["short", "long"])
@pytest.mark.parametrize(
    "line_break", ["<br>", "<br />\n", "<BR/>", "&#10;", "&#xA;", "%0A", "%0d%0a", "\\u000a", "\\\\\\n"]
)
def test_a_key_is_redacted_whole_with_line_breaks_of_other_notations(key: str, line_break: str) -> None:
    assert redact(f"x {key.replace(chr(10), line_break)} y") == "x [SECRET_1] y"


def test_a_key_in_the_format_of_openssh_is_redacted_whole() -> None:
    """Its zero bytes are rows of the letter A."""
    zeros = "KRf/hEimHYrb45IKxr/EAAAAEAAAAAEAAAGXAAAAB3NzaC1yc2EAAAADAQABAAAB"
    assert redact(f"{KEY_BEGIN}\n{zeros}\n{PEM_LINE}\n-----END PRIVATE KEY-----") == "[SECRET_1]"


def test_text_between_the_lines_of_a_key_stays() -> None:
    first, second, third = PEM_LINE, PEM_LINE[::-1], PEM_LINE[32:] + PEM_LINE[:32]
    assert redact(f"{KEY_BEGIN}\n# {first}\n# {HARM}\n# {second}") == f"[SECRET_1]\n# {HARM}\n# [SECRET_2]"
    assert redact(f"{KEY_BEGIN}\n{first}\n{SHORT_WORDS}\n{second}") == f"[SECRET_1]\n{SHORT_WORDS}\n[SECRET_2]"
    assert redact(f"> {KEY_BEGIN}\n> {first}\n# {HARM}") == f"> [SECRET_1]\n# {HARM}"
    numbered = f"1 {KEY_BEGIN}\n2 {first}\n3 {second}\n4 {third}\n"
    assert redact(numbered) == f"1 {KEY_BEGIN}\n2 [SECRET_1]\n3 [SECRET_2]\n4 [SECRET_3]\n"


def test_the_next_block_is_not_part_of_a_key() -> None:
    certificate = f"See also:\n-----BEGIN CERTIFICATE-----\n{PEM_LINE[::-1]}\n-----END CERTIFICATE-----"
    text = f"{KEY_BEGIN}\n{PEM_LINE}\n-----END PRIVATE KEY-----\n{certificate}"
    assert redact(text) == f"[SECRET_1]\n{certificate}"


def test_numbers_follow_the_first_occurrence_over_all_texts() -> None:
    redacted = REDACTOR.redact(["b@x.com, a@x.com", "no value", "A@X.com; c@x.com; b@x.com"])
    assert redacted.texts == ("[EMAIL_1], [EMAIL_2]", "no value", "[EMAIL_2]; [EMAIL_3]; [EMAIL_1]")


def test_counts_are_of_different_values() -> None:
    redacted = REDACTOR.redact(["a@x.com a@x.com b@x.com", "a@x.com 4111111111111111"])
    assert redacted.counts == {"email": 2, "card": 1}
    assert isinstance(redacted.counts, MappingProxyType)


@pytest.mark.parametrize(
    "spellings",
    [
        ["+7 (916) 123-45-67", "8 916 123-45-67", "89161234567", "+79161234567"],
        ["4111 1111 1111 1111", "4111-1111-1111-1111", "4111111111111111"],
        ["DE89370400440532013000", "DE89 3704 0044 0532 0130 00", "de89370400440532013000"],
        ["ИНН 7707083893", "7707083893", "7707-083893"],
        ["2001:db8::1", "2001:0DB8:0:0:0:0:0:1"],
    ],
)
def test_spellings_of_one_value_are_one_value(spellings: list[str]) -> None:
    """An answer that spells a number of its context differently is still grounded in it."""
    assert sum(REDACTOR.redact(spellings).counts.values()) == 1


def test_a_password_is_replaced_where_no_word_stands_before_it() -> None:
    texts = REDACTOR.redact(["Try summer2024 first.", "password: summer2024", "summer20245"]).texts
    assert texts == ("Try [SECRET_1] first.", "password: [SECRET_1]", "summer20245")


def test_words_that_look_like_placeholders_are_kept_and_their_numbers_not_given_again() -> None:
    redacted = REDACTOR.redact(["Dear [EMAIL_1], write to a@x.com", "[EMAIL_3] b@x.com c@x.com"])
    assert redacted.texts == ("Dear [EMAIL_1], write to [EMAIL_2]", "[EMAIL_3] [EMAIL_4] [EMAIL_5]")
    assert redacted.counts == {"email": 3}


def test_a_value_cannot_hide_in_a_placeholder() -> None:
    assert "4111111111111111" not in redact("[CARD_4111111111111111]")


def test_the_reply_of_the_model_speaks_of_our_placeholders() -> None:
    """A conversation that continues with the model's words keeps its numbers."""
    task = [
        ChatMessage(role="system", content="Judge."),
        ChatMessage(role="user", content="Is a@x.com right, not b@x.com?"),
    ]
    first, counts = REDACTOR.redact_messages(task)
    assert first[1].content == "Is [EMAIL_1] right, not [EMAIL_2]?"
    assert counts == {"email": 2}
    reply = [ChatMessage(role="assistant", content="[EMAIL_2] is"), ChatMessage(role="user", content="Reply in JSON.")]
    second, _ = REDACTOR.redact_messages([*task, *reply])
    assert second == [*first, *reply]


def test_messages_without_values_are_the_same_objects() -> None:
    messages = [ChatMessage(role="user", content="nothing"), ChatMessage(role="user", content="a@x.com")]
    redacted, _ = REDACTOR.redact_messages(messages)
    assert redacted[0] is messages[0]
    assert redacted[1] == ChatMessage(role="user", content="[EMAIL_1]")


def test_no_representation_reveals_the_values_or_the_texts() -> None:
    redacted = REDACTOR.redact(["Ann is a@x.com"])
    assert repr(redacted) == "Redacted(counts=mappingproxy({'email': 1}))"


def test_kinds_are_chosen() -> None:
    assert Redactor(["card"]).redact(["a@x.com 4111111111111111"]).texts == ("a@x.com [CARD_1]",)
    assert Redactor(["pesel"]).redact(["89021212348"]).counts in ({}, {"pesel": 1})
    assert Redactor([]).redact(["a@x.com"]).texts == ("a@x.com",)


# Custom patterns


def test_custom_patterns_have_placeholders_of_their_names() -> None:
    redactor = Redactor(custom={"employee": r"EMP-\d{4}", "PASSPORT": r"(?<=паспорт )\d{4} \d{6}"})
    redacted = redactor.redact(["EMP-0001 и EMP-0002, паспорт 4510 123456", "EMP-0002; 4510 123456"])
    assert redacted.texts == ("[EMPLOYEE_1] и [EMPLOYEE_2], паспорт [PASSPORT_1]", "[EMPLOYEE_2]; [PASSPORT_1]")
    assert redacted.counts == {"EMPLOYEE": 2, "PASSPORT": 1}


def test_of_nested_values_the_outer_is_replaced() -> None:
    assert Redactor(custom={"person": r"(?<=Name: )[^\n]+"}).redact(["Name: Ann, a@x.com\nb@x.com"]).texts == (
        "Name: [PERSON_1]\n[EMAIL_1]",
    )


@pytest.mark.parametrize("pattern", [r"\w+", r"[A-Z]+_\d", r"\S+", r"[^\n]+", r"\d", r"\[.*?\]"])
def test_custom_patterns_do_not_touch_placeholders(pattern: str) -> None:
    redactor = Redactor(custom={"any": pattern})
    once = redactor.redact(["call EMAIL_1 or 5, [x] a@x.com [EMAIL_7]"])
    assert redactor.redact(once.texts).texts == once.texts
    assert "[EMAIL_7]" in once.texts[0]


@pytest.mark.parametrize(
    ("custom", "message"),
    [
        ({"x": "("}, r"custom\.x: not a valid regular expression: missing \)"),
        ({"x": "a*"}, r"custom\.x: matches the empty text"),
        ({"x y": "a"}, "'x y' must be a name"),
        ({"": "a"}, "must be a name"),
        ({"Email": "a"}, r"custom\.Email: this name is reserved"),
        ({"ab": "a", "AB": "b"}, "differ only in case"),
    ],
)
def test_wrong_custom_patterns_are_refused_in_words(custom: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Redactor(custom=custom)


def test_wrong_arguments_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="did you mean 'email'"):
        Redactor(["emial"])
    with pytest.raises(TypeError, match="collection of names"):
        Redactor("email")
    with pytest.raises(TypeError, match=r"write \[text\]"):
        REDACTOR.redact("a@x.com")


def test_the_identity_changes_with_kinds_and_patterns_without_revealing_them() -> None:
    custom = {"staff": "EMP-[0-9]+"}
    redactors = [Redactor(), Redactor(["card"]), Redactor(custom=custom), Redactor(custom={"staff": "EMP"})]
    assert len({redactor.identity for redactor in redactors}) == 4
    assert Redactor(custom=custom).identity == Redactor([*reversed(ALL_KINDS)], custom).identity
    assert "EMP" not in repr(Redactor(custom=custom))


OURS = """
    localhost LOCALHOST localhost. 127.0.0.1 127.8.9.1 ::1 [::1] 10.0.0.5 172.31.255.1 192.168.1.1 169.254.1.1 fe80::1
    fe80::1%eth0 fd00::1 ::ffff:10.0.0.1 ollama llm_server vllm-0 printer.local host.docker.internal api.localhost
    node.internal.
"""
NOT_OURS = """
    api.openai.com 8.8.8.8 172.32.0.1 192.169.0.1 100.64.0.1 0.0.0.0 2001:db8::1 ::ffff:8.8.8.8 134744072 0x08080808
    10.0.1 010.0.0.1 0x7f.1 ai. . local.example.com x.local.evil.com evil。com notlocal.internals 127.0.0.1.nip.io
    internal-.com - a/b user@localhost
"""


@pytest.mark.parametrize("host", OURS.split())
def test_hosts_of_our_own_network(host: str) -> None:
    assert is_private(host)


@pytest.mark.parametrize("host", [*NOT_OURS.split(), "", "ollama evil", "localhost\n"])
def test_all_other_hosts_are_not_ours(host: str) -> None:
    assert not is_private(host)
