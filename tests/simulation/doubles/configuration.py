"""In-memory double of Secrets Manager."""

from stoppress_cli.local.template import Json
from tests.simulation.doubles.errors import error


class SecretsManager:
    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def create_secret(self, *, Name: str, SecretString: str) -> Json:  # noqa: N803
        self.values[Name] = SecretString
        return {"Name": Name}

    def put_secret_value(self, *, SecretId: str, SecretString: str) -> Json:  # noqa: N803
        return self.create_secret(Name=SecretId, SecretString=SecretString)

    def get_secret_value(self, *, SecretId: str) -> Json:  # noqa: N803
        if SecretId not in self.values:
            raise error(
                "GetSecretValue", "ResourceNotFoundException", "Secrets Manager can't find the specified secret."
            )
        return {"Name": SecretId, "SecretString": self.values[SecretId]}

    def describe_secret(self, *, SecretId: str) -> Json:  # noqa: N803
        if SecretId not in self.values:
            raise error(
                "DescribeSecret", "ResourceNotFoundException", "Secrets Manager can't find the specified secret."
            )
        return {"Name": SecretId}
