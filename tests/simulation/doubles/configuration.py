"""Parameter Store and Secrets Manager in dictionaries."""

from collections.abc import Callable
from typing import Any

from stoppress_cli.local.template import Json
from tests.simulation.doubles.errors import error

# SSM API reference, GetParametersByPath.
PARAMETERS_A_PAGE = 10


class Ssm:
    """Parameters and their versions; `changed` hears of each that is put."""

    def __init__(self, changed: Callable[[str, int], None]) -> None:
        self._parameters: dict[str, Json] = {}
        self._changed = changed

    def put_parameter(self, *, Name: str, Value: str, **_: Any) -> Json:  # noqa: N803
        version = self._parameters.get(Name, {"Version": 0})["Version"] + 1
        self._parameters[Name] = {"Name": Name, "Value": Value, "Type": "String", "Version": version}
        self._changed(Name, version)
        return {"Version": version}

    def delete_parameter(self, *, Name: str) -> Json:  # noqa: N803
        del self._parameters[Name]
        return {}

    def get_parameter(self, *, Name: str, WithDecryption: bool = False) -> Json:  # noqa: N803
        if Name not in self._parameters:
            raise error("GetParameter", "ParameterNotFound", f"Parameter {Name} not found.")
        return {"Parameter": dict(self._parameters[Name])}

    def get_parameters_by_path(self, *, Path: str, NextToken: str = "0", **options: bool) -> Json:  # noqa: N803
        below = sorted(
            name
            for name in self._parameters
            if name.startswith(f"{Path}/") and (options.get("Recursive") or "/" not in name[len(Path) + 1 :])
        )
        start = int(NextToken)
        end = start + PARAMETERS_A_PAGE
        found = [dict(self._parameters[name]) for name in below[start:end]]
        return {"Parameters": found} | ({"NextToken": str(end)} if end < len(below) else {})


class SecretsManager:
    """Secrets by name."""

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
